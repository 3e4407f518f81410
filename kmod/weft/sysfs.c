// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of a volume below /sys/block/weft!NAME: the volume's attributes in
 * weft/, and each member's in members/INDEX/.
 */
#include "weft.h"

static struct weft_volume *weft_dev_volume(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

static ssize_t uuid_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%pUb\n", weft_dev_volume(dev)->uuid);
}
static DEVICE_ATTR_RO(uuid);

static ssize_t chunk_size_show(struct device *dev, struct device_attribute *attr,
			       char *buf)
{
	return sysfs_emit(buf, "%u\n",
			  1U << (weft_dev_volume(dev)->map.chunk_shift + SECTOR_SHIFT));
}
static DEVICE_ATTR_RO(chunk_size);

static ssize_t member_count_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", weft_dev_volume(dev)->member_count);
}
static DEVICE_ATTR_RO(member_count);

static ssize_t generation_show(struct device *dev, struct device_attribute *attr,
			       char *buf)
{
	return sysfs_emit(buf, "%llu\n",
			  weft_dev_volume(dev)->members[0]->sb.generation);
}
static DEVICE_ATTR_RO(generation);

static ssize_t state_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	static const char * const names[] = {
		[WEFT_VOLUME_STATE_ASSEMBLING]	= "assembling",
		[WEFT_VOLUME_STATE_LIVE]	= "live",
		[WEFT_VOLUME_STATE_FAILED]	= "failed",
		[WEFT_VOLUME_STATE_STOPPING]	= "stopping",
	};

	return sysfs_emit(buf, "%s\n", names[READ_ONCE(weft_dev_volume(dev)->state)]);
}
static DEVICE_ATTR_RO(state);

static ssize_t ownership_show(struct device *dev, struct device_attribute *attr,
			      char *buf)
{
	static const char * const names[] = {
		[WEFT_OWNERSHIP_NONE]		= "none",
		[WEFT_OWNERSHIP_HELD]		= "held",
		[WEFT_OWNERSHIP_SUSPENDED]	= "suspended",
		[WEFT_OWNERSHIP_FAILED]		= "failed",
		[WEFT_OWNERSHIP_LOST]		= "lost",
	};

	return sysfs_emit(buf, "%s\n", names[weft_owner_state(weft_dev_volume(dev))]);
}
static DEVICE_ATTR_RO(ownership);

static ssize_t no_path_timeout_show(struct device *dev, struct device_attribute *attr,
				    char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(weft_dev_volume(dev)->no_path_timeout));
}

static ssize_t no_path_timeout_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t count)
{
	struct weft_volume *vol = weft_dev_volume(dev);
	int seconds, ret;
	u32 i;

	ret = kstrtoint(buf, 0, &seconds);
	if (ret)
		return ret;
	if (seconds < -1 || seconds > WEFT_NO_PATH_TIMEOUT_MAX)
		return -ERANGE;
	WRITE_ONCE(vol->no_path_timeout, seconds);
	/* The new limit may already be over for waiting I/O. */
	for (i = 0; i < vol->member_count; i++)
		weft_mpath_kick(vol->members[i]);
	return count;
}
static DEVICE_ATTR_RW(no_path_timeout);

static const char * const weft_iopolicies[] = {
	[WEFT_IOPOLICY_ROUND_ROBIN]	= "round-robin",
	[WEFT_IOPOLICY_NUMA]		= "numa",
};

static ssize_t iopolicy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  weft_iopolicies[READ_ONCE(weft_dev_volume(dev)->iopolicy)]);
}

static ssize_t iopolicy_store(struct device *dev, struct device_attribute *attr,
			      const char *buf, size_t count)
{
	int policy = sysfs_match_string(weft_iopolicies, buf);

	if (policy < 0)
		return policy;
	WRITE_ONCE(weft_dev_volume(dev)->iopolicy, policy);
	return count;
}
static DEVICE_ATTR_RW(iopolicy);

static struct attribute *weft_attrs[] = {
	&dev_attr_uuid.attr,
	&dev_attr_chunk_size.attr,
	&dev_attr_member_count.attr,
	&dev_attr_generation.attr,
	&dev_attr_state.attr,
	&dev_attr_ownership.attr,
	&dev_attr_no_path_timeout.attr,
	&dev_attr_iopolicy.attr,
	NULL
};

static const struct attribute_group weft_group = {
	.name	= "weft",
	.attrs	= weft_attrs,
};

const struct attribute_group *weft_disk_groups[] = {
	&weft_group,
	NULL
};

/*
 * A member's folder. It is a separate allocation because it has to live until
 * its last reader is done, and the member is freed earlier.
 */
struct weft_member_dir {
	struct kobject		kobj;
	struct weft_member	*member;
};

struct weft_member_attr {
	struct attribute	attr;
	ssize_t			(*show)(struct weft_member *member, char *buf);
};

#define WEFT_MEMBER_ATTR(_name)						\
	static const struct weft_member_attr weft_member_attr_##_name = {	\
		.attr	= { .name = __stringify(_name), .mode = 0444 },	\
		.show	= weft_member_##_name##_show,			\
	}

static ssize_t weft_member_address_show(struct weft_member *member, char *buf)
{
	return sysfs_emit(buf, "%s\n", member->address);
}
WEFT_MEMBER_ATTR(address);

static ssize_t weft_member_transport_show(struct weft_member *member, char *buf)
{
	return sysfs_emit(buf, "%s\n", member->transport);
}
WEFT_MEMBER_ATTR(transport);

static ssize_t weft_member_state_show(struct weft_member *member, char *buf)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(member->gone) ? "gone" :
			  READ_ONCE(member->mpath.stalled) ? "stalled" : "ok");
}
WEFT_MEMBER_ATTR(state);

static ssize_t weft_member_errors_show(struct weft_member *member, char *buf)
{
	struct weft_stats sum;

	weft_member_stats(member, &sum);
	return sysfs_emit(buf, "%llu\n", sum.errors);
}
WEFT_MEMBER_ATTR(errors);

/*
 * One line like a disk's stat file. Three numbers each for read, write, discard
 * and flush: commands, 512-byte sectors, nanoseconds.
 */
static ssize_t weft_member_stat_show(struct weft_member *member, char *buf)
{
	struct weft_stats sum;
	int group, len = 0;

	weft_member_stats(member, &sum);
	for (group = 0; group < WEFT_STAT_GROUPS; group++)
		len += sysfs_emit_at(buf, len, "%s%llu %llu %llu",
				     group ? " " : "", sum.group[group].ios,
				     sum.group[group].sectors, sum.group[group].nsecs);
	return len + sysfs_emit_at(buf, len, "\n");
}
WEFT_MEMBER_ATTR(stat);

static const struct attribute *weft_member_attrs[] = {
	&weft_member_attr_address.attr,
	&weft_member_attr_transport.attr,
	&weft_member_attr_state.attr,
	&weft_member_attr_errors.attr,
	&weft_member_attr_stat.attr,
	NULL
};

static ssize_t weft_member_dir_show(struct kobject *kobj, struct attribute *attr,
				    char *buf)
{
	struct weft_member_dir *dir = container_of(kobj, struct weft_member_dir, kobj);
	const struct weft_member_attr *member_attr =
		container_of(attr, const struct weft_member_attr, attr);

	return member_attr->show(dir->member, buf);
}

static const struct sysfs_ops weft_member_sysfs_ops = {
	.show	= weft_member_dir_show,
};

static void weft_member_dir_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct weft_member_dir, kobj));
}

static const struct kobj_type weft_member_ktype = {
	.sysfs_ops	= &weft_member_sysfs_ops,
	.release	= weft_member_dir_release,
};

static void weft_sysfs_del_member(struct weft_member *member)
{
	/* Waits for readers; none uses the member after this. */
	kobject_del(member->sysfs);
	kobject_put(member->sysfs);
	member->sysfs = NULL;
}

static int weft_sysfs_add_member(struct weft_member *member)
{
	struct weft_member_dir *dir = kzalloc_obj(*dir);
	int ret;

	if (!dir)
		return -ENOMEM;
	dir->member = member;
	ret = kobject_init_and_add(&dir->kobj, &weft_member_ktype,
				   member->volume->sysfs_members, "%u",
				   member->index);
	if (!ret)
		ret = sysfs_create_files(&dir->kobj, weft_member_attrs);
	if (ret) {
		kobject_put(&dir->kobj);
		return ret;
	}
	member->sysfs = &dir->kobj;
	return 0;
}

/**
 * weft_sysfs_add_members() - make the folders of a volume's members
 * @vol: the volume; its disk is added
 *
 * Return: 0, or a negative errno with everything undone.
 */
int weft_sysfs_add_members(struct weft_volume *vol)
{
	u32 i;
	int ret;

	vol->sysfs_members = kobject_create_and_add("members",
						    &disk_to_dev(vol->disk)->kobj);
	if (!vol->sysfs_members)
		return -ENOMEM;
	for (i = 0; i < vol->member_count; i++) {
		ret = weft_sysfs_add_member(vol->members[i]);
		if (ret) {
			weft_sysfs_del_members(vol);
			return ret;
		}
	}
	return 0;
}

/**
 * weft_sysfs_del_members() - undo weft_sysfs_add_members()
 * @vol: the volume
 */
void weft_sysfs_del_members(struct weft_volume *vol)
{
	u32 i;

	for (i = 0; i < vol->member_count; i++)
		if (vol->members[i]->sysfs)
			weft_sysfs_del_member(vol->members[i]);
	kobject_del(vol->sysfs_members);
	kobject_put(vol->sysfs_members);
	vol->sysfs_members = NULL;
}
