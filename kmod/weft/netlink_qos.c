// SPDX-License-Identifier: GPL-2.0-only
/* The netlink commands qos-set and qos-get. uapi/weft.yaml specifies them. */
#include <linux/sched/mm.h>

#include "netlink.h"
#include "qos.h"
#include "qos_cgroup.h"

#define WEFT_QOS_FLOOR		5	/* percent */
#define WEFT_QOS_WEIGHT		10

/* Attributes of the classes. */
static const struct {
	u16	max_bytes;
	u16	max_ios;
	u16	cgroup;
} weft_nl_qos_class[WEFT_CLASSES] = {
	[WEFT_IO_CLASS_FEED] = {
		.max_bytes	= WEFT_A_QOS_FEED_MAX_BYTES,
		.max_ios	= WEFT_A_QOS_FEED_MAX_IOS,
		.cgroup		= WEFT_A_QOS_FEED_CGROUP,
	},
	[WEFT_IO_CLASS_BACKGROUND] = {
		.max_bytes	= WEFT_A_QOS_BACKGROUND_MAX_BYTES,
		.max_ios	= WEFT_A_QOS_BACKGROUND_MAX_IOS,
		.cgroup		= WEFT_A_QOS_BACKGROUND_CGROUP,
	},
};

static struct weft_qos_settings weft_nl_qos_defaults(void)
{
	return (struct weft_qos_settings) {
		.floor	= WEFT_QOS_FLOOR,
		.reads	= WEFT_IO_CLASS_FEED,
		.writes	= WEFT_IO_CLASS_BACKGROUND,
		.background_weight = WEFT_QOS_WEIGHT,
	};
}

static void weft_nl_qos_u32(struct nlattr *attr, u32 *value)
{
	if (attr)
		*value = nla_get_u32(attr);
}

/* The attribute is in microseconds, and the value in nanoseconds. */
static void weft_nl_qos_time(struct nlattr *attr, u64 *value)
{
	if (attr)
		*value = (u64)nla_get_u32(attr) * NSEC_PER_USEC;
}

static void weft_nl_qos_class_get(struct nlattr *attr, u8 *value)
{
	if (attr)
		*value = nla_get_u32(attr);
}

/* Read the attributes over the settings. */
static int weft_nl_qos_parse(struct nlattr **attrs, struct weft_qos_settings *set,
			     struct weft_why *why)
{
	int class;

	set->on = true;
	weft_nl_qos_time(attrs[WEFT_A_QOS_FEED_LATENCY], &set->feed_latency);
	weft_nl_qos_u32(attrs[WEFT_A_QOS_BACKGROUND_FLOOR], &set->floor);
	weft_nl_qos_u32(attrs[WEFT_A_QOS_BACKGROUND_FROM], &set->background_from);
	weft_nl_qos_time(attrs[WEFT_A_QOS_BACKGROUND_LATENCY], &set->background_latency);
	weft_nl_qos_u32(attrs[WEFT_A_QOS_BACKGROUND_WEIGHT], &set->background_weight);
	weft_nl_qos_class_get(attrs[WEFT_A_QOS_READS], &set->reads);
	weft_nl_qos_class_get(attrs[WEFT_A_QOS_WRITES], &set->writes);
	for (class = 0; class < WEFT_CLASSES; class++) {
		struct nlattr *bytes = attrs[weft_nl_qos_class[class].max_bytes];

		if (bytes)
			set->max_bytes[class] = nla_get_u64(bytes);
		weft_nl_qos_u32(attrs[weft_nl_qos_class[class].max_ios], &set->max_ios[class]);
		/* Below, a single command would be held for long. */
		if (set->max_bytes[class] && (set->max_bytes[class] < WEFT_PACE_MIN ||
					      set->max_bytes[class] > WEFT_PACE_MAX))
			return weft_refuse(why, -EINVAL,
					   "a limit is %llu to %llu bytes per second, not %llu",
					   WEFT_PACE_MIN, WEFT_PACE_MAX, set->max_bytes[class]);
	}
	return 0;
}

/* Returns the cgroup with a reference, NULL for an empty path, or an ERR_PTR. */
static struct cgroup *weft_nl_qos_find_cgroup(const char *path, struct weft_why *why)
{
	struct cgroup *cgroup;

	if (!path[0])
		return NULL;
	cgroup = weft_cgroup_find(path);
	if (IS_ERR(cgroup))
		weft_refuse(why, PTR_ERR(cgroup),
			    "no cgroup is called %s (error %ld); give the path below the root of cgroup v2, as /training",
			    path, -PTR_ERR(cgroup));
	return cgroup;
}

/**
 * struct weft_nl_qos_cgroups - cgroups that a command names
 * @given: it names one for the class
 * @cgroup: with a reference; NULL for none
 */
struct weft_nl_qos_cgroups {
	bool		given[WEFT_CLASSES];
	struct cgroup	*cgroup[WEFT_CLASSES];
};

static void weft_nl_qos_put_cgroups(struct weft_nl_qos_cgroups *cgroups)
{
	int class;

	for (class = 0; class < WEFT_CLASSES; class++)
		weft_cgroup_put(cgroups->cgroup[class]);
}

static int weft_nl_qos_find_cgroups(struct nlattr **attrs, struct weft_nl_qos_cgroups *cgroups,
				    struct weft_why *why)
{
	int class;

	for (class = 0; class < WEFT_CLASSES; class++) {
		const char *path = weft_nl_string(attrs[weft_nl_qos_class[class].cgroup]);
		struct cgroup *cgroup;

		if (!path)
			continue;
		cgroup = weft_nl_qos_find_cgroup(path, why);
		if (IS_ERR(cgroup)) {
			weft_nl_qos_put_cgroups(cgroups);
			return PTR_ERR(cgroup);
		}
		cgroups->given[class] = true;
		cgroups->cgroup[class] = cgroup;
	}
	return 0;
}

/* Under weft_volumes_lock. */
static struct weft_volume *weft_nl_qos_volume(const char *name, struct weft_why *why)
{
	struct weft_volume *vol = weft_volume_find(name);

	if (!vol)
		return ERR_PTR(weft_refuse(why, -ENOENT, "no volume is called %s", name));
	if (!weft_volume_settled(vol))
		return ERR_PTR(weft_refuse(why, -EBUSY, "volume %s is being assembled or stopped",
					   name));
	return vol;
}

/* Under weft_volumes_lock. Takes the references of @cgroups that it uses. */
static void weft_nl_qos_apply(struct weft_qos *qos, const struct weft_qos_settings *set,
			      struct weft_nl_qos_cgroups *cgroups)
{
	int class;

	weft_qos_set(qos, set);
	for (class = 0; class < WEFT_CLASSES; class++) {
		if (!set->on) {
			weft_qos_set_cgroup(qos, class, NULL);
		} else if (cgroups->given[class]) {
			weft_qos_set_cgroup(qos, class, cgroups->cgroup[class]);
			cgroups->cgroup[class] = NULL;
		}
	}
}

/* The busy flag keeps the volume: an allocation here may wait for its I/O. */
static int weft_nl_qos_change(struct weft_volume *vol, struct nlattr **attrs,
			      struct weft_nl_qos_cgroups *cgroups, struct weft_why *why)
{
	struct weft_qos_settings set = vol->qos ? vol->qos->set : weft_nl_qos_defaults();
	unsigned int noio;
	int ret = 0;

	if (nla_get_flag(attrs[WEFT_A_QOS_OFF]))
		set = weft_nl_qos_defaults();
	else
		ret = weft_nl_qos_parse(attrs, &set, why);
	if (ret || (!set.on && !vol->qos))
		return ret;
	/* Reclaim may need I/O on this volume, which may wait for a path that another command adds. */
	noio = memalloc_noio_save();
	if (!vol->qos)
		ret = weft_qos_make(vol);
	if (!ret) {
		mutex_lock(&weft_volumes_lock);
		weft_nl_qos_apply(vol->qos, &set, cgroups);
		mutex_unlock(&weft_volumes_lock);
	}
	memalloc_noio_restore(noio);
	return ret;
}

int weft_nl_qos_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	const char *name = weft_nl_string(info->attrs[WEFT_A_QOS_VOLUME]);
	struct weft_nl_qos_cgroups cgroups = {};
	struct weft_why why = {};
	struct weft_volume *vol;
	int ret;

	ret = weft_nl_may(skb, &why);
	if (!ret && !name)
		ret = weft_refuse(&why, -EINVAL, "the volume's name is missing");
	if (!ret)
		ret = weft_nl_qos_find_cgroups(info->attrs, &cgroups, &why);
	if (ret)
		return weft_nl_result(info, ret, name, &why);
	vol = weft_volume_begin(name, &why);
	if (IS_ERR(vol)) {
		ret = PTR_ERR(vol);
	} else {
		ret = weft_nl_qos_change(vol, info->attrs, &cgroups, &why);
		weft_volume_done(vol);
	}
	weft_nl_qos_put_cgroups(&cgroups);
	return weft_nl_result(info, ret, name, &why);
}

static int weft_nl_qos_put_cgroup(struct sk_buff *skb, struct weft_qos *qos, int class)
{
	struct cgroup *cgroup = rcu_dereference_protected(qos->cgroup[class],
							  lockdep_is_held(&weft_volumes_lock));
	char *path;
	int ret;

	if (!cgroup)
		return 0;
	path = kmalloc(PATH_MAX, GFP_KERNEL);
	if (!path)
		return -ENOMEM;
	weft_cgroup_path(cgroup, path, PATH_MAX);
	ret = nla_put_string(skb, weft_nl_qos_class[class].cgroup, path);
	kfree(path);
	return ret;
}

static int weft_nl_qos_put_settings(struct sk_buff *skb, struct weft_qos *qos)
{
	const struct weft_qos_settings *set = &qos->set;
	int class, ret;

	if (nla_put_u32(skb, WEFT_A_QOS_FEED_LATENCY, set->feed_latency / NSEC_PER_USEC) ||
	    nla_put_u32(skb, WEFT_A_QOS_BACKGROUND_FLOOR, set->floor) ||
	    nla_put_u32(skb, WEFT_A_QOS_READS, set->reads) ||
	    nla_put_u32(skb, WEFT_A_QOS_WRITES, set->writes) ||
	    nla_put_u32(skb, WEFT_A_QOS_BACKGROUND_FROM, set->background_from) ||
	    nla_put_u32(skb, WEFT_A_QOS_BACKGROUND_LATENCY,
			set->background_latency / NSEC_PER_USEC) ||
	    nla_put_u32(skb, WEFT_A_QOS_BACKGROUND_WEIGHT, set->background_weight))
		return -EMSGSIZE;
	for (class = 0; class < WEFT_CLASSES; class++) {
		if (nla_put_u64_64bit(skb, weft_nl_qos_class[class].max_bytes,
				      set->max_bytes[class], WEFT_A_QOS_PAD) ||
		    nla_put_u32(skb, weft_nl_qos_class[class].max_ios, set->max_ios[class]))
			return -EMSGSIZE;
		ret = weft_nl_qos_put_cgroup(skb, qos, class);
		if (ret)
			return ret;
	}
	return 0;
}

static int weft_nl_qos_put_class(struct sk_buff *skb, const struct weft_qos_stats *stats,
				 const struct weft_qos_queue *queue, u32 class)
{
	struct nlattr *nest = nla_nest_start(skb, WEFT_A_QOS_MEMBER_CLASS);
	u64 ios = 0;
	int i;

	for (i = 0; i < WEFT_QOS_BUCKETS; i++)
		ios += stats->latency[class][i];
	if (!nest || nla_put_u32(skb, WEFT_A_QOS_CLASS_CLASS, class) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_CLASS_IOS, ios, WEFT_A_QOS_CLASS_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_CLASS_BYTES, stats->bytes[class],
			      WEFT_A_QOS_CLASS_PAD) ||
	    nla_put(skb, WEFT_A_QOS_CLASS_LATENCY, sizeof(stats->latency[class]),
		    stats->latency[class]) ||
	    nla_put_u32(skb, WEFT_A_QOS_CLASS_HELD, queue->count) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_CLASS_STALLS, queue->stalls,
			      WEFT_A_QOS_CLASS_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_CLASS_STALLED, queue->stalled,
			      WEFT_A_QOS_CLASS_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_CLASS_IN_FLIGHT, queue->in_flight,
			      WEFT_A_QOS_CLASS_PAD))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int weft_nl_qos_put_member(struct sk_buff *skb, struct weft_qos_member *qm, u32 index)
{
	struct nlattr *nest = nla_nest_start(skb, WEFT_A_QOS_MEMBER);
	struct weft_qos_view view;
	struct weft_qos_stats *sum;
	int class, ret = -EMSGSIZE;

	sum = kmalloc_obj(*sum, GFP_KERNEL);
	if (!sum)
		return -ENOMEM;
	weft_qos_sum(qm, sum);
	weft_qos_look(qm, &view);
	if (!nest || nla_put_u32(skb, WEFT_A_QOS_MEMBER_INDEX, index) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_MEMBER_RATE, view.rate, WEFT_A_QOS_MEMBER_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_MEMBER_BEST, view.best, WEFT_A_QOS_MEMBER_PAD) ||
	    nla_put_u64_64bit(skb, WEFT_A_QOS_MEMBER_WINDOW, view.window, WEFT_A_QOS_MEMBER_PAD))
		goto out_free;
	for (class = 0; class < WEFT_CLASSES; class++) {
		ret = weft_nl_qos_put_class(skb, sum, &view.queue[class], class);
		if (ret)
			goto out_free;
	}
	nla_nest_end(skb, nest);
	ret = 0;

out_free:
	kfree(sum);
	return ret;
}

static int weft_nl_qos_put(struct sk_buff *skb, struct weft_volume *vol, struct nlattr *index,
			   struct weft_why *why)
{
	int ret;

	if (nla_put_string(skb, WEFT_A_QOS_VOLUME, vol->name))
		return -EMSGSIZE;
	if (index && nla_get_u32(index) >= vol->member_count)
		return weft_refuse(why, -ENOENT, "volume %s has no member %u", vol->name,
				   nla_get_u32(index));
	if (!vol->qos || !vol->qos->set.on)
		return nla_put_flag(skb, WEFT_A_QOS_OFF);
	ret = weft_nl_qos_put_settings(skb, vol->qos);
	if (!ret && index)
		ret = weft_nl_qos_put_member(skb, &vol->qos->member[nla_get_u32(index)],
					     nla_get_u32(index));
	return ret;
}

int weft_nl_qos_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	const char *name = weft_nl_string(info->attrs[WEFT_A_QOS_VOLUME]);
	struct weft_why why = {};
	struct weft_volume *vol;
	struct sk_buff *reply;
	unsigned int noio;
	void *hdr;
	int ret;

	if (!name) {
		ret = weft_refuse(&why, -EINVAL, "the volume's name is missing");
		return weft_nl_result(info, ret, NULL, &why);
	}
	/* Two paths of cgroups, and the histograms of a member. */
	reply = genlmsg_new(2 * PATH_MAX + 4096, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	hdr = genlmsg_put_reply(reply, info, &weft_nl_family, 0, WEFT_CMD_QOS_GET);
	noio = memalloc_noio_save();
	mutex_lock(&weft_volumes_lock);
	vol = hdr ? weft_nl_qos_volume(name, &why) : ERR_PTR(-EMSGSIZE);
	ret = IS_ERR(vol) ? PTR_ERR(vol) :
			    weft_nl_qos_put(reply, vol, info->attrs[WEFT_A_QOS_INDEX], &why);
	mutex_unlock(&weft_volumes_lock);
	memalloc_noio_restore(noio);
	if (ret) {
		nlmsg_free(reply);
		return weft_nl_result(info, ret, name, &why);
	}
	genlmsg_end(reply, hdr);
	return genlmsg_reply(reply, info);
}
