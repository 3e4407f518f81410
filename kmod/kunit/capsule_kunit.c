// SPDX-License-Identifier: GPL-2.0-only
/* Capsules, descriptors and identify data: encoding, and checks of a target's data. */
#include <kunit/test.h>

#include "../compat/compat.h"
#include "../include/weft_why.h"
#include "../rdma/capsule.h"

static void capsule_rw(struct kunit *test)
{
	struct nvme_command cmd, want;

	weft_capsule_rw(&cmd, 7, true, true, 0x123456789abULL, 65536);
	KUNIT_EXPECT_EQ(test, cmd.rw.opcode, nvme_cmd_write);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.rw.nsid), 7);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(cmd.rw.slba), 0x123456789abULL);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.rw.length), 65535);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.rw.control), NVME_RW_FUA);
	weft_capsule_rw(&cmd, 1, false, false, 0, 1);
	KUNIT_EXPECT_EQ(test, cmd.rw.opcode, nvme_cmd_read);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.rw.length), 0);
	KUNIT_EXPECT_EQ(test, cmd.rw.control, 0);
	/* All old contents of a capsule are overwritten, except the id. */
	memset(&cmd, 0xff, sizeof(cmd));
	weft_capsule_rw(&cmd, 1, false, false, 2, 3);
	weft_sgl_keyed(&cmd, 0, 0, 0, false);
	memset(&want, 0, sizeof(want));
	want.rw.opcode = nvme_cmd_read;
	want.rw.flags = NVME_CMD_SGL_METABUF;
	want.rw.command_id = cmd.rw.command_id;
	want.rw.nsid = cpu_to_le32(1);
	want.rw.dptr.ksgl.type = 0x40;
	want.rw.slba = cpu_to_le64(2);
	want.rw.length = cpu_to_le16(2);
	KUNIT_EXPECT_MEMEQ(test, &cmd, &want, sizeof(cmd));
}

static void capsule_ranges(struct kunit *test)
{
	struct nvme_dsm_range range;
	struct nvme_command cmd;

	weft_capsule_discard(&cmd, 3, &range, 4096, 8);
	KUNIT_EXPECT_EQ(test, cmd.dsm.opcode, nvme_cmd_dsm);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.dsm.nr), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.dsm.attributes), NVME_DSMGMT_AD);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(range.nlb), 8);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(range.slba), 4096);
	weft_capsule_write_zeroes(&cmd, 3, 16, 65536);
	KUNIT_EXPECT_EQ(test, cmd.write_zeroes.opcode, nvme_cmd_write_zeroes);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.write_zeroes.length), 65535);
}

static void capsule_sgl(struct kunit *test)
{
	struct nvme_command cmd = {};
	const u8 *raw = (const u8 *)&cmd.common.dptr;

	weft_sgl_keyed(&cmd, 0x1122334455667788ULL, 0xabcdef, 0xdeadbeef, true);
	KUNIT_EXPECT_EQ(test, get_unaligned_le64(raw), 0x1122334455667788ULL);
	KUNIT_EXPECT_EQ(test, get_unaligned_le24(raw + 8), 0xabcdefU);
	KUNIT_EXPECT_EQ(test, get_unaligned_le32(raw + 11), 0xdeadbeefU);
	KUNIT_EXPECT_EQ(test, raw[15], 0x4f);
	KUNIT_EXPECT_EQ(test, cmd.common.flags, NVME_CMD_SGL_METABUF);
	weft_sgl_keyed(&cmd, 1, 2, 3, false);
	KUNIT_EXPECT_EQ(test, raw[15], 0x40);
	weft_sgl_inline(&cmd, 4096);
	KUNIT_EXPECT_EQ(test, get_unaligned_le64(raw), 0ULL);
	KUNIT_EXPECT_EQ(test, get_unaligned_le32(raw + 8), 4096U);
	KUNIT_EXPECT_EQ(test, raw[15], 0x01);
	weft_sgl_none(&cmd);
	KUNIT_EXPECT_EQ(test, get_unaligned_le64(raw), 0ULL);
	KUNIT_EXPECT_EQ(test, get_unaligned_le32(raw + 11), 0U);
	KUNIT_EXPECT_EQ(test, raw[15], 0x40);
}

static void capsule_connection(struct kunit *test)
{
	struct nvme_rdma_cm_rej rej = { .recfmt = 0, .sts = cpu_to_le16(6) };
	struct weft_cm_request req;
	struct nvme_command cmd;

	weft_capsule_cm_request(&req, 3, 128, 0x1234);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(req.qid), 3);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(req.hrqsize), 128);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(req.hsqsize), 127);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(req.cntlid), 0x1234);
	weft_capsule_connect(&cmd, 3, 128, 5000);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.connect.sqsize), 127);
	KUNIT_EXPECT_EQ(test, cmd.connect.kato, 0);
	weft_capsule_connect(&cmd, 0, 32, 5000);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.connect.kato), 5000);

	KUNIT_EXPECT_NOT_NULL(test, weft_capsule_reject(&rej, sizeof(rej)));
	KUNIT_EXPECT_NULL(test, weft_capsule_reject(&rej, sizeof(rej) - 1));
	KUNIT_EXPECT_NULL(test, weft_capsule_reject(NULL, 0));
	rej.recfmt = cpu_to_le16(9);
	KUNIT_EXPECT_NULL(test, weft_capsule_reject(&rej, sizeof(rej)));
}

static void capsule_ids(struct kunit *test)
{
	u16 tag, cid;
	int use;

	for (tag = 0; tag < 256; tag++)
		/* It comes again after 16 uses, and not before. */
		for (cid = tag, use = 1; use <= 16; use++) {
			cid = WEFT_CID_NEXT(cid);
			KUNIT_EXPECT_EQ(test, WEFT_CID_TAG(cid), tag);
			KUNIT_EXPECT_EQ(test, cid == tag, use == 16);
		}
}

static void info_good_controller(struct nvme_id_ctrl *id)
{
	memset(id, 0, sizeof(*id));
	id->sgls = cpu_to_le32(BIT(0) | BIT(2) | BIT(20));
	id->ioccsz = cpu_to_le32(4 + 256);
	id->iorcsz = cpu_to_le32(1);
	id->cntlid = cpu_to_le16(5);
	id->mdts = 5;
	memset(id->mn, ' ', sizeof(id->mn));
	memcpy(id->mn, "a\x01 b", 4);
}

static void info_controller(struct kunit *test)
{
	struct weft_ctrl_info info;
	struct nvme_id_ctrl *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct weft_why *why = kunit_kzalloc(test, sizeof(*why), GFP_KERNEL);
	u64 cap = 127 | 10ULL << 24;

	KUNIT_ASSERT_NOT_NULL(test, id);
	KUNIT_ASSERT_NOT_NULL(test, why);
	info_good_controller(id);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.cntlid, 5);
	KUNIT_EXPECT_EQ(test, info.inline_bytes, 4096U);
	KUNIT_EXPECT_EQ(test, info.max_bytes, 131072U);
	KUNIT_EXPECT_EQ(test, info.max_queue_size, 128U);
	KUNIT_EXPECT_STREQ(test, info.model, "a  b");

	/* Without SGL offsets, capsules cannot contain data. */
	id->sgls = cpu_to_le32(BIT(2));
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.inline_bytes, 0U);
	/* An invalid MDTS counts as no limit. */
	id->mdts = 255;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.max_bytes, 256U << 20);
	id->maxcmd = cpu_to_le16(16);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.max_queue_size, 16U);

	id->maxcmd = cpu_to_le16(1);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), -EPROTO);
	/* A queue of two entries carries one command at a time: too small. */
	id->maxcmd = cpu_to_le16(2);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), -EPROTO);
	id->maxcmd = 0;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, 1, SZ_4K, &info, why), -EPROTO);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, 2, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.max_queue_size, 3U);
	info_good_controller(id);
	id->sgls = 0;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), -EPROTO);
	info_good_controller(id);
	id->ioccsz = cpu_to_le32(3);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), -EPROTO);
	info_good_controller(id);
	id->cntrltype = NVME_CTRL_DISC;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), -EPROTO);
	/* The largest values of all fields do not overflow. */
	memset(id, 0xff, sizeof(*id));
	id->cntrltype = NVME_CTRL_IO;
	id->icdoff = 0;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, ~0ULL, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.inline_bytes, (u32)SZ_64K);
	KUNIT_EXPECT_EQ(test, info.max_queue_size, 65535U);
}

static void info_quiet_time(struct kunit *test)
{
	struct weft_ctrl_info info;
	struct nvme_id_ctrl *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct weft_why *why = kunit_kzalloc(test, sizeof(*why), GFP_KERNEL);
	u64 cap = 127 | 10ULL << 24;

	KUNIT_ASSERT_NOT_NULL(test, id);
	KUNIT_ASSERT_NOT_NULL(test, why);
	info_good_controller(id);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_FALSE(test, info.traffic_keep_alive);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000), 10000U);
	/* CTRATT.TBKAS is bit 6. Bit 5 has another meaning. */
	id->ctratt = cpu_to_le32(BIT(5));
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000), 10000U);
	id->ctratt = cpu_to_le32(BIT(6));
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_TRUE(test, info.traffic_keep_alive);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000), 15000U);
	/* CQT is added once. */
	put_unaligned_le16(700, (u8 *)id + 386);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000), 15700U);
	/* With a KAS of 2 s the controller rounds 5 s up to 6 s. */
	id->kas = cpu_to_le16(20);
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, cap, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000), 18700U);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 6000), 18700U);
	/* The largest values of all fields do not overflow. */
	memset(id, 0xff, sizeof(*id));
	id->cntrltype = NVME_CTRL_IO;
	KUNIT_EXPECT_EQ(test, weft_info_controller(id, ~0ULL, SZ_4K, &info, why), 0);
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 3600000), 3 * 3600000U + 65535);
	/* Nor does a KAS of almost two hours keep writes for longer than that of ten minutes. */
	KUNIT_EXPECT_EQ(test, weft_info_quiet_ms(&info, 5000),
			3 * WEFT_KEEP_ALIVE_UNIT_MAX + 65535);
}

static void info_namespace(struct kunit *test)
{
	struct weft_ns_info info;
	struct nvme_id_ns *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct weft_why *why = kunit_kzalloc(test, sizeof(*why), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, id);
	KUNIT_ASSERT_NOT_NULL(test, why);
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), -ENODEV);
	id->nsze = cpu_to_le64(1000);
	id->lbaf[0].ds = 12;
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.lba_shift, 12);
	/* Format 17: its number has bits in two places of FLBAS. */
	id->flbas = 0x21;
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), -EOPNOTSUPP);
	id->lbaf[17].ds = 9;
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), 0);
	KUNIT_EXPECT_EQ(test, info.lba_shift, 9);
	id->lbaf[17].ms = cpu_to_le16(8);
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), -EOPNOTSUPP);
	id->lbaf[17].ms = 0;
	id->lbaf[17].ds = 200;
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), -EOPNOTSUPP);
	id->lbaf[17].ds = 9;
	id->nsze = cpu_to_le64(~0ULL);
	KUNIT_EXPECT_EQ(test, weft_info_namespace(id, &info, why), -EOPNOTSUPP);
}

static void info_descriptors(struct kunit *test)
{
	struct weft_why *why = kunit_kzalloc(test, sizeof(*why), GFP_KERNEL);
	u8 *list = kunit_kzalloc(test, 4096, GFP_KERNEL);
	struct weft_ns_id id = {};

	KUNIT_ASSERT_NOT_NULL(test, why);
	KUNIT_ASSERT_NOT_NULL(test, list);
	KUNIT_EXPECT_EQ(test, weft_info_descriptors(list, &id, why), 0);
	list[0] = NVME_NIDT_UUID;
	list[1] = 16;
	memset(list + 4, 0xab, 16);
	/* A descriptor of an unknown type is skipped. */
	list[20] = 77;
	list[21] = 100;
	list[124] = NVME_NIDT_EUI64;
	list[125] = 8;
	memset(list + 128, 0xcd, 8);
	KUNIT_EXPECT_EQ(test, weft_info_descriptors(list, &id, why), 0);
	KUNIT_EXPECT_EQ(test, id.uuid[15], 0xab);
	KUNIT_EXPECT_EQ(test, id.eui64[7], 0xcd);
	list[1] = 15;
	KUNIT_EXPECT_EQ(test, weft_info_descriptors(list, &id, why), -EPROTO);
	/* The last descriptor ends beyond the end of the list. */
	memset(list, 77, 4096);
	KUNIT_EXPECT_EQ(test, weft_info_descriptors(list, &id, why), -EPROTO);
}

static void info_identity(struct kunit *test)
{
	struct weft_ctrl_info ctrl = { .model = "a disk", .serial = "1" };
	struct weft_ns_id one = {}, other = {};

	/* Without an id, the controllers distinguish two disks. */
	weft_info_identity(&ctrl, &one);
	weft_info_identity(&ctrl, &other);
	KUNIT_EXPECT_MEMEQ(test, &one, &other, sizeof(one));
	memset(&other, 0, sizeof(other));
	strscpy(ctrl.serial, "2");
	weft_info_identity(&ctrl, &other);
	KUNIT_EXPECT_MEMNEQ(test, &one, &other, sizeof(one));
	memset(&other, 0, sizeof(other));
	strscpy(ctrl.serial, "1");
	strscpy(ctrl.model, "another disk");
	weft_info_identity(&ctrl, &other);
	KUNIT_EXPECT_MEMNEQ(test, &one, &other, sizeof(one));
	/* With an id, the controller's name does not matter. */
	memset(&one, 0, sizeof(one));
	memset(&other, 0, sizeof(other));
	one.uuid[3] = 7;
	other.uuid[3] = 7;
	weft_info_identity(&ctrl, &one);
	strscpy(ctrl.serial, "3");
	weft_info_identity(&ctrl, &other);
	KUNIT_EXPECT_MEMEQ(test, &one, &other, sizeof(one));
}

static void info_same(struct kunit *test)
{
	struct weft_ns_info was = { .blocks = 8, .lba_shift = 9 }, is;
	struct weft_why why = {};

	/* Without an id, another size means another disk. */
	strscpy(was.id.serial, "1");
	is = was;
	KUNIT_EXPECT_TRUE(test, weft_info_same(&was, &is, &why));
	is.blocks = 16;
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text, "it has 16 blocks, before 8, and no identifier");
	is.blocks = 8;
	strscpy(is.id.serial, "2");
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text, "its controller is  2, before  1");
	/* With an id, a disk can grow. */
	is.blocks = 16;
	was.id.uuid[3] = 7;
	is.id = was.id;
	KUNIT_EXPECT_TRUE(test, weft_info_same(&was, &is, &why));
	is.lba_shift = 12;
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text, "its blocks have 4096 bytes, before 512");
	is.lba_shift = 9;
	is.id.eui64[7] = 1;
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text,
			   "its EUI-64 is 0000000000000001, before 0000000000000000");
	is.id.nguid[0] = 0xab;
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text,
			   "its NGUID is ab000000000000000000000000000000, before 00000000000000000000000000000000");
	is.id.uuid[3] = 8;
	why.text[0] = 0;
	KUNIT_EXPECT_FALSE(test, weft_info_same(&was, &is, &why));
	KUNIT_EXPECT_STREQ(test, why.text,
			   "its UUID is 00000008-0000-0000-0000-000000000000, before 00000007-0000-0000-0000-000000000000");
}

static void info_disks(struct kunit *test)
{
	struct weft_ns_id a = {}, b = {};

	/* Without an id of the same kind, both answers are false. */
	KUNIT_EXPECT_FALSE(test, weft_info_same_disk(&a, &b));
	KUNIT_EXPECT_FALSE(test, weft_info_other_disk(&a, &b));
	a.nguid[3] = 1;
	b.uuid[3] = 1;
	KUNIT_EXPECT_FALSE(test, weft_info_same_disk(&a, &b));
	KUNIT_EXPECT_FALSE(test, weft_info_other_disk(&a, &b));
	b.nguid[3] = 1;
	KUNIT_EXPECT_FALSE(test, weft_info_other_disk(&a, &b));
	a.uuid[3] = 1;
	KUNIT_EXPECT_TRUE(test, weft_info_same_disk(&a, &b));
	b.nguid[3] = 2;
	KUNIT_EXPECT_FALSE(test, weft_info_same_disk(&a, &b));
	KUNIT_EXPECT_TRUE(test, weft_info_other_disk(&a, &b));
}

static void ana_group(void *log, u32 *at, u32 group, u32 nsids, u8 state)
{
	struct nvme_ana_group_desc *desc = log + *at;
	struct nvme_ana_rsp_hdr *header = log;

	desc->grpid = cpu_to_le32(group);
	desc->nnsids = cpu_to_le32(nsids);
	desc->state = state;
	*at += sizeof(*desc) + nsids * sizeof(__le32);
	le16_add_cpu(&header->ngrps, 1);
}

static void info_ana(struct kunit *test)
{
	u32 at = sizeof(struct nvme_ana_rsp_hdr);
	u8 log[256] = {};

	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, 8, 1), -EPROTO);
	ana_group(log, &at, 2, 0, NVME_ANA_NONOPTIMIZED);
	ana_group(log, &at, 5, 3, NVME_ANA_INACCESSIBLE | 0xf0);
	ana_group(log, &at, 7, 0, NVME_ANA_CHANGE);
	ana_group(log, &at, 8, 0, 9);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 2), NVME_ANA_NONOPTIMIZED);
	/* The high bits are reserved, and namespaces may follow. */
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 5), NVME_ANA_INACCESSIBLE);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 7), NVME_ANA_CHANGE);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 8), -EPROTO);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 1), -ENOENT);
	/* Cut off within a descriptor, and within its namespaces. */
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, 60, 7), -EPROTO);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, 84, 7), -EPROTO);
	/* A number of namespaces that would overflow. */
	at = sizeof(struct nvme_ana_rsp_hdr);
	memset(log, 0, sizeof(log));
	ana_group(log, &at, 2, 0, NVME_ANA_OPTIMIZED);
	((struct nvme_ana_group_desc *)(log + sizeof(struct nvme_ana_rsp_hdr)))->nnsids =
		cpu_to_le32(U32_MAX);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 3), -EPROTO);
	KUNIT_EXPECT_EQ(test, weft_info_ana(log, sizeof(log), 2), NVME_ANA_OPTIMIZED);
}

static struct kunit_case capsule_cases[] = {
	KUNIT_CASE(capsule_rw),
	KUNIT_CASE(capsule_ranges),
	KUNIT_CASE(capsule_sgl),
	KUNIT_CASE(capsule_connection),
	KUNIT_CASE(capsule_ids),
	KUNIT_CASE(info_controller),
	KUNIT_CASE(info_quiet_time),
	KUNIT_CASE(info_namespace),
	KUNIT_CASE(info_descriptors),
	KUNIT_CASE(info_ana),
	KUNIT_CASE(info_identity),
	KUNIT_CASE(info_same),
	KUNIT_CASE(info_disks),
	{}
};

static struct kunit_suite capsule_suite = {
	.name = "weft-capsule",
	.test_cases = capsule_cases,
};

kunit_test_suite(capsule_suite);
