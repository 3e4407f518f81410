// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/weft-rdmaN and its attributes, for nvme-cli and users. The attributes
 * have the names of the stock host.
 */
#include "chap.h"
#include "namespace.h"

#include <linux/compat.h>
#include <linux/nvme_ioctl.h>

#define WEFT_RDMA_MINORS	BIT(MINORBITS)
/* The largest read of a log page: what a queue takes without limits of its own. */
#define WEFT_ADMIN_DATA_MAX	(255 << SECTOR_SHIFT)

static dev_t weft_rdma_devt;

/*
 * Users may send commands that read, or that change only what the target keeps
 * for this host. Others could destroy volumes (Format, Sanitize, Namespace
 * Management, vendor commands).
 */
static bool weft_admin_allowed(u8 opcode)
{
	switch (opcode) {
	case nvme_admin_get_log_page:
	case nvme_admin_identify:
	case nvme_admin_get_features:
		return true;
	default:
		return false;
	}
}

/* I/O commands through the controller: reservations can be read, not changed. */
static bool weft_io_allowed(u8 opcode)
{
	return opcode == nvme_cmd_resv_report;
}

static int weft_ioctl_command(struct weft_rdma_ctrl *ctrl, struct request_queue *q,
			      struct nvme_passthru_cmd __user *ucmd)
{
	struct nvme_passthru_cmd in;
	union nvme_result result = {};
	struct nvme_command cmd = {};
	unsigned long timeout;
	void *data = NULL;
	int ret;

	if (copy_from_user(&in, ucmd, sizeof(in)))
		return -EFAULT;
	if (in.flags || in.metadata_len || in.data_len > WEFT_ADMIN_DATA_MAX)
		return -EINVAL;
	if (!(q ? weft_io_allowed(in.opcode) : weft_admin_allowed(in.opcode)))
		return -EACCES;
	if (weft_rdma_state(ctrl) != WEFT_RDMA_LIVE)
		return -ENOTCONN;
	cmd.common.opcode = in.opcode;
	cmd.common.nsid = cpu_to_le32(in.nsid);
	cmd.common.cdw2[0] = cpu_to_le32(in.cdw2);
	cmd.common.cdw2[1] = cpu_to_le32(in.cdw3);
	cmd.common.cdw10 = cpu_to_le32(in.cdw10);
	cmd.common.cdw11 = cpu_to_le32(in.cdw11);
	cmd.common.cdw12 = cpu_to_le32(in.cdw12);
	cmd.common.cdw13 = cpu_to_le32(in.cdw13);
	cmd.common.cdw14 = cpu_to_le32(in.cdw14);
	cmd.common.cdw15 = cpu_to_le32(in.cdw15);
	if (in.data_len) {
		/* Zeroed: the target may send less, and users must not see old data. */
		data = kvzalloc(in.data_len, GFP_KERNEL);
		if (!data)
			return -ENOMEM;
	}
	/* A command that times out ends the association: not before all others would. */
	timeout = max_t(unsigned long, min(msecs_to_jiffies(in.timeout_ms), 600UL * HZ),
			q ? ctrl->set.timeout : ctrl->admin_set.timeout);
	ret = weft_rdma_command(q ?: ctrl->admin_q, &cmd, data, in.data_len, &result,
				timeout, 0, NULL);
	if (ret >= 0 && data &&
	    copy_to_user(u64_to_user_ptr(in.addr), data, in.data_len))
		ret = -EFAULT;
	kvfree(data);
	if (ret >= 0 && put_user(le32_to_cpu(result.u32), &ucmd->result))
		ret = -EFAULT;
	return ret < 0 ? ret : ret & ~WEFT_STATUS_HOST;
}

/* Removal frees the queues after all callers have left this function. */
static int weft_ioctl_guarded(struct weft_rdma_ctrl *ctrl, struct request_queue *q,
			      struct nvme_passthru_cmd __user *ucmd)
{
	int ret = -ENODEV;

	if (!capable(CAP_SYS_ADMIN))
		return -EACCES;
	down_read(&ctrl->gone_lock);
	if (!ctrl->gone)
		ret = weft_ioctl_command(ctrl, q, ucmd);
	up_read(&ctrl->gone_lock);
	return ret;
}

/**
 * weft_rdma_ioctl() - run an allowed NVMe command of a user
 * @ctrl: the controller
 * @ns: the namespace whose disk was opened, or NULL
 * @cmd: of linux/nvme_ioctl.h
 * @arg: its argument
 *
 * Return: 0, a positive NVMe status, or a negative errno.
 */
int weft_rdma_ioctl(struct weft_rdma_ctrl *ctrl, struct weft_rdma_ns *ns,
		    unsigned int cmd, unsigned long arg)
{
	void __user *argp = (void __user *)arg;

	switch (cmd) {
	case NVME_IOCTL_ID:
		return ns ? ns->nsid : -ENOTTY;
	case NVME_IOCTL_ADMIN_CMD:
		return weft_ioctl_guarded(ctrl, NULL, argp);
	case NVME_IOCTL_RESET:
	case NVME_IOCTL_RESCAN:
		if (!capable(CAP_SYS_ADMIN))
			return -EACCES;
		return cmd == NVME_IOCTL_RESET ? weft_rdma_reset(ctrl) : weft_rdma_rescan(ctrl);
	case NVME_IOCTL_IO_CMD:
		return ns ? weft_ioctl_guarded(ctrl, ns->disk->queue, argp) : -ENOTTY;
	default:
		return -ENOTTY;
	}
}

static int weft_cdev_open(struct inode *inode, struct file *file)
{
	struct weft_rdma_ctrl *ctrl = container_of(inode->i_cdev, struct weft_rdma_ctrl, cdev);

	file->private_data = ctrl;
	return 0;
}

static long weft_cdev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return weft_rdma_ioctl(file->private_data, NULL, cmd, arg);
}

static const struct file_operations weft_cdev_fops = {
	.owner		= THIS_MODULE,
	.open		= weft_cdev_open,
	.unlocked_ioctl	= weft_cdev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

#define WEFT_ATTR(name, fmt, value)						\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr,	\
			   char *buf)						\
{										\
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev); \
										\
	return sysfs_emit(buf, fmt "\n", value);				\
}										\
static DEVICE_ATTR_RO(name)

WEFT_ATTR(state, "%s", weft_rdma_state_text(weft_rdma_state(ctrl)));
WEFT_ATTR(subsysnqn, "%s", ctrl->opts.subnqn);
WEFT_ATTR(hostnqn, "%s", ctrl->opts.host_nqn);
WEFT_ATTR(hostid, "%pUb", ctrl->opts.host_id);
WEFT_ATTR(cntlid, "%u", ctrl->info.cntlid);
WEFT_ATTR(model, "%s", ctrl->info.model);
WEFT_ATTR(serial, "%s", ctrl->info.serial);
WEFT_ATTR(firmware_rev, "%s", ctrl->info.firmware);
WEFT_ATTR(queue_count, "%u", ctrl->queue_count);
WEFT_ATTR(io_queues, "%u", ctrl->opts.io_queues);
WEFT_ATTR(poll_queues, "%u", ctrl->opts.poll_queues);
WEFT_ATTR(queue_size, "%u", ctrl->opts.queue_size);
WEFT_ATTR(sqsize, "%u", ctrl->set.queue_depth);
WEFT_ATTR(numa_node, "%d", ctrl->node);
WEFT_ATTR(p2pdma, "%d", ctrl->p2pdma);
WEFT_ATTR(kato, "%u", ctrl->opts.kato_ms / 1000);
WEFT_ATTR(reconnect_delay, "%u", ctrl->opts.reconnect_delay);
WEFT_ATTR(fast_io_fail_tmo, "%d", ctrl->opts.fast_io_fail_timeout);
WEFT_ATTR(tos, "%d", ctrl->opts.tos);
WEFT_ATTR(background_tos, "%d", ctrl->opts.background_tos);
WEFT_ATTR(background_queues, "%u", ctrl->background_count);
WEFT_ATTR(reconnects, "%u", ctrl->reconnects);
WEFT_ATTR(errors, "%u", ctrl->errors);
WEFT_ATTR(reason, "%s", ctrl->reason);

static ssize_t transport_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "rdma\n");
}
static DEVICE_ATTR_RO(transport);

static ssize_t address_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);
	const struct weft_rdma_options *opts = &ctrl->opts;

	return sysfs_emit(buf, "traddr=%s,trsvcid=%s%s%s\n", opts->traddr, opts->trsvcid,
			  opts->host_traddr[0] ? ",host_traddr=" : "", opts->host_traddr);
}
static DEVICE_ATTR_RO(address);

/* The local RDMA device and port of the path. */
static ssize_t rail_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);
	int len;

	down_read(&ctrl->gone_lock);
	len = sysfs_emit(buf, "%s\n", ctrl->rail);
	up_read(&ctrl->gone_lock);
	return len;
}
static DEVICE_ATTR_RO(rail);

static ssize_t reset_controller_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t count)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);

	return weft_rdma_reset(ctrl) ?: count;
}
static DEVICE_ATTR_WO(reset_controller);

static ssize_t rescan_controller_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t count)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);

	return weft_rdma_rescan(ctrl) ?: count;
}
static DEVICE_ATTR_WO(rescan_controller);

static ssize_t ctrl_loss_tmo_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);

	return sysfs_emit(buf, "%d\n", READ_ONCE(ctrl->opts.ctrl_loss_timeout));
}

/* Also while it is lost: it counts from the loss on. */
static ssize_t ctrl_loss_tmo_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t count)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);
	int seconds, ret;

	ret = kstrtoint(buf, 10, &seconds);
	if (ret)
		return ret;
	if (seconds < -1 || seconds > WEFT_RDMA_SECONDS_MAX)
		return -EINVAL;
	WRITE_ONCE(ctrl->opts.ctrl_loss_timeout, seconds);
	return count;
}
static DEVICE_ATTR_RW(ctrl_loss_tmo);

/* "none", or hash and group, and whether the controller has proven itself, too. */
static ssize_t authentication_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);
	struct weft_rdma_auth auth = ctrl->auth;

	if (!auth.hash)
		return sysfs_emit(buf, "none\n");
	return sysfs_emit(buf, "%s %s %s\n", weft_chap_hash_name(auth.hash),
			  weft_chap_group_name(auth.group), auth.mutual ? "mutual" : "host");
}
static DEVICE_ATTR_RO(authentication);

/* Associations that ended by an error, by reason. The numbers are of one moment. */
static ssize_t ends_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ctrl *ctrl = container_of(dev, struct weft_rdma_ctrl, dev);
	u32 ends[WEFT_RDMA_ENDS];
	unsigned long flags;
	int len = 0;
	u32 i;

	spin_lock_irqsave(&ctrl->lock, flags);
	memcpy(ends, ctrl->ends, sizeof(ends));
	spin_unlock_irqrestore(&ctrl->lock, flags);
	for (i = 0; i < WEFT_RDMA_ENDS; i++)
		len += sysfs_emit_at(buf, len, "%s %u\n", weft_rdma_end_text(i), ends[i]);
	return len;
}
static DEVICE_ATTR_RO(ends);

static struct attribute *weft_ctrl_attrs[] = {
	&dev_attr_state.attr,
	&dev_attr_transport.attr,
	&dev_attr_address.attr,
	&dev_attr_rail.attr,
	&dev_attr_subsysnqn.attr,
	&dev_attr_hostnqn.attr,
	&dev_attr_hostid.attr,
	&dev_attr_cntlid.attr,
	&dev_attr_model.attr,
	&dev_attr_serial.attr,
	&dev_attr_firmware_rev.attr,
	&dev_attr_queue_count.attr,
	&dev_attr_io_queues.attr,
	&dev_attr_poll_queues.attr,
	&dev_attr_queue_size.attr,
	&dev_attr_sqsize.attr,
	&dev_attr_numa_node.attr,
	&dev_attr_p2pdma.attr,
	&dev_attr_kato.attr,
	&dev_attr_reconnect_delay.attr,
	&dev_attr_ctrl_loss_tmo.attr,
	&dev_attr_fast_io_fail_tmo.attr,
	&dev_attr_tos.attr,
	&dev_attr_background_tos.attr,
	&dev_attr_authentication.attr,
	&dev_attr_background_queues.attr,
	&dev_attr_reconnects.attr,
	&dev_attr_errors.attr,
	&dev_attr_ends.attr,
	&dev_attr_reason.attr,
	&dev_attr_reset_controller.attr,
	&dev_attr_rescan_controller.attr,
	NULL
};
ATTRIBUTE_GROUPS(weft_ctrl);

static ssize_t nsid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ns *ns = dev_to_disk(dev)->private_data;

	return sysfs_emit(buf, "%u\n", ns->nsid);
}
static DEVICE_ATTR_RO(nsid);

/* The same order as the stock host's: UUID, NGUID, EUI-64. */
static ssize_t wwid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ns *ns = dev_to_disk(dev)->private_data;
	const struct weft_ns_id *id = &ns->info.id;

	if (memchr_inv(id->uuid, 0, sizeof(id->uuid)))
		return sysfs_emit(buf, "uuid.%pUb\n", id->uuid);
	if (memchr_inv(id->nguid, 0, sizeof(id->nguid)))
		return sysfs_emit(buf, "eui.%16phN\n", id->nguid);
	if (memchr_inv(id->eui64, 0, sizeof(id->eui64)))
		return sysfs_emit(buf, "eui.%8phN\n", id->eui64);
	return sysfs_emit(buf, "weft.%s-%08x\n", ns->ctrl->info.serial, ns->nsid);
}
static DEVICE_ATTR_RO(wwid);

/* Beside the wwid: a target may have another source for it. Like the next two, as of the stock host. */
static ssize_t nguid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ns *ns = dev_to_disk(dev)->private_data;

	return sysfs_emit(buf, "%pU\n", ns->info.id.nguid);
}
static DEVICE_ATTR_RO(nguid);

static ssize_t ana_state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ns *ns = dev_to_disk(dev)->private_data;

	return sysfs_emit(buf, "%s\n", weft_rdma_ana_text(READ_ONCE(ns->ana)));
}
static DEVICE_ATTR_RO(ana_state);

static ssize_t ana_grpid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weft_rdma_ns *ns = dev_to_disk(dev)->private_data;

	return sysfs_emit(buf, "%u\n", ns->info.ana_group);
}
static DEVICE_ATTR_RO(ana_grpid);

static struct attribute *weft_ns_attrs[] = {
	&dev_attr_nsid.attr,
	&dev_attr_wwid.attr,
	&dev_attr_nguid.attr,
	&dev_attr_ana_state.attr,
	&dev_attr_ana_grpid.attr,
	NULL
};

/* As for the stock host: a namespace without an NGUID has no such attribute. */
static umode_t weft_ns_attr_mode(struct kobject *kobj, struct attribute *attr, int index)
{
	struct weft_rdma_ns *ns = dev_to_disk(kobj_to_dev(kobj))->private_data;
	const u8 *nguid = ns->info.id.nguid;

	if (attr == &dev_attr_nguid.attr && !memchr_inv(nguid, 0, sizeof(ns->info.id.nguid)))
		return 0;
	return attr->mode;
}

static const struct attribute_group weft_ns_group = {
	.attrs = weft_ns_attrs,
	.is_visible = weft_ns_attr_mode,
};

const struct attribute_group *weft_ns_groups[] = {
	&weft_ns_group,
	NULL
};

static struct class *weft_rdma_class;

/**
 * weft_rdma_cdev_add() - add a controller's character device
 * @ctrl: connected
 *
 * Return: 0 or a negative errno.
 */
int weft_rdma_cdev_add(struct weft_rdma_ctrl *ctrl)
{
	ctrl->dev.class = weft_rdma_class;
	ctrl->dev.groups = weft_ctrl_groups;
	ctrl->dev.devt = MKDEV(MAJOR(weft_rdma_devt), ctrl->instance);
	cdev_init(&ctrl->cdev, &weft_cdev_fops);
	ctrl->cdev.owner = THIS_MODULE;
	return cdev_device_add(&ctrl->cdev, &ctrl->dev);
}

/**
 * weft_rdma_cdev_del() - delete a controller's character device
 * @ctrl: torn down; its open files get ENODEV from here on
 *
 * Context: process context; waits for commands on it.
 */
void weft_rdma_cdev_del(struct weft_rdma_ctrl *ctrl)
{
	cdev_device_del(&ctrl->cdev, &ctrl->dev);
	down_write(&ctrl->gone_lock);
	ctrl->gone = true;
	up_write(&ctrl->gone_lock);
}

int weft_rdma_cdev_init(void)
{
	int ret;

	ret = alloc_chrdev_region(&weft_rdma_devt, 0, WEFT_RDMA_MINORS, "weft-rdma");
	if (ret)
		return ret;
	weft_rdma_class = weft_class_create("weft-rdma");
	if (!IS_ERR(weft_rdma_class))
		return 0;
	unregister_chrdev_region(weft_rdma_devt, WEFT_RDMA_MINORS);
	return PTR_ERR(weft_rdma_class);
}

void weft_rdma_cdev_exit(void)
{
	class_destroy(weft_rdma_class);
	unregister_chrdev_region(weft_rdma_devt, WEFT_RDMA_MINORS);
}
