// SPDX-License-Identifier: GPL-2.0-only
/* Reservations for the block layer (NVMe base 2.1, 8.1.22). */
#include "namespace.h"

#include <linux/pr.h>

/* The two keys of Reservation Register, Acquire and Release. */
struct weft_pr_data {
	__le64	key;
	__le64	other;
};

static u8 weft_pr_type(enum pr_type type)
{
	switch (type) {
	case PR_WRITE_EXCLUSIVE:
		return 1;
	case PR_EXCLUSIVE_ACCESS:
		return 2;
	case PR_WRITE_EXCLUSIVE_REG_ONLY:
		return 3;
	case PR_EXCLUSIVE_ACCESS_REG_ONLY:
		return 4;
	case PR_WRITE_EXCLUSIVE_ALL_REGS:
		return 5;
	case PR_EXCLUSIVE_ACCESS_ALL_REGS:
		return 6;
	}
	return 0;
}

static int weft_pr_command(struct block_device *bdev, u8 opcode, u32 cdw10,
			   u64 key, u64 other)
{
	struct weft_rdma_ns *ns = bdev->bd_disk->private_data;
	struct nvme_command cmd = {};
	struct weft_pr_data *data;
	int ret;

	if (!ns->ctrl->info.reservations)
		return -EOPNOTSUPP;
	data = kzalloc_obj(*data);
	if (!data)
		return -ENOMEM;
	data->key = cpu_to_le64(key);
	data->other = cpu_to_le64(other);
	cmd.common.opcode = opcode;
	cmd.common.nsid = cpu_to_le32(ns->nsid);
	cmd.common.cdw10 = cpu_to_le32(cdw10);
	ret = weft_rdma_command(bdev->bd_disk->queue, &cmd, data,
				opcode == nvme_cmd_resv_release ? sizeof(data->key) :
								  sizeof(*data),
				NULL, 0, 0, NULL);
	kfree(data);
	if (ret <= 0)
		return ret;
	return (ret & WEFT_STATUS_CODE) == NVME_SC_RESERVATION_CONFLICT ? -EBADE : -EIO;
}

static int weft_pr_register(struct block_device *bdev, u64 old, u64 new, u32 flags)
{
	const struct weft_rdma_ns *ns = bdev->bd_disk->private_data;
	/* RREGA: unregister, replace or register; IEKEY; and kept over power loss. */
	u32 cdw10 = !new ? 1 : old ? 2 : 0;

	if (flags & ~PR_FL_IGNORE_KEY)
		return -EOPNOTSUPP;
	if (flags & PR_FL_IGNORE_KEY)
		cdw10 |= BIT(3);
	if (ns->info.persistent_reservations)
		cdw10 |= 3U << 30;
	return weft_pr_command(bdev, nvme_cmd_resv_register, cdw10, old, new);
}

static int weft_pr_reserve(struct block_device *bdev, u64 key, enum pr_type type, u32 flags)
{
	u32 cdw10 = weft_pr_type(type) << 8;

	if (flags & ~PR_FL_IGNORE_KEY)
		return -EOPNOTSUPP;
	if (flags & PR_FL_IGNORE_KEY)
		cdw10 |= BIT(3);
	return weft_pr_command(bdev, nvme_cmd_resv_acquire, cdw10, key, 0);
}

static int weft_pr_preempt(struct block_device *bdev, u64 old, u64 new,
			   enum pr_type type, bool abort)
{
	u32 cdw10 = weft_pr_type(type) << 8 | (abort ? 2 : 1);

	return weft_pr_command(bdev, nvme_cmd_resv_acquire, cdw10, old, new);
}

static int weft_pr_clear(struct block_device *bdev, u64 key)
{
	return weft_pr_command(bdev, nvme_cmd_resv_release, 1 | (key ? 0 : BIT(3)), key, 0);
}

static int weft_pr_release(struct block_device *bdev, u64 key, enum pr_type type)
{
	u32 cdw10 = weft_pr_type(type) << 8 | (key ? 0 : BIT(3));

	return weft_pr_command(bdev, nvme_cmd_resv_release, cdw10, key, 0);
}

const struct pr_ops weft_rdma_pr_ops = {
	.pr_register	= weft_pr_register,
	.pr_reserve	= weft_pr_reserve,
	.pr_release	= weft_pr_release,
	.pr_preempt	= weft_pr_preempt,
	.pr_clear	= weft_pr_clear,
};
