// SPDX-License-Identifier: GPL-2.0-only
/* Commands, descriptors and identify data: see capsule.h. */
#include "capsule.h"

#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/string.h>

#include "../compat/compat.h"
#include "../include/weft_why.h"

/* NVMe/RDMA transport 1.1, figure 11; the kernel's enum lacks it on 6.1. */
#define WEFT_CM_INVALID_CNTLID	0x0a

#define WEFT_DATA_BYTES_MAX	(256 * 1024 * 1024)	/* an MDTS beyond is as none */

/**
 * weft_capsule_cm_request() - private data of a connection
 * @req: set
 * @qid: 0 for the admin queue
 * @queue_size: entries, at least 2
 * @cntlid: of the controller that the queue is for; 0xffff for the admin queue
 */
void weft_capsule_cm_request(struct weft_cm_request *req, u16 qid,
			     u16 queue_size, u16 cntlid)
{
	BUILD_BUG_ON(sizeof(*req) != 32);
	memset(req, 0, sizeof(*req));
	req->recfmt = cpu_to_le16(NVME_RDMA_CM_FMT_1_0);
	req->qid = cpu_to_le16(qid);
	req->hrqsize = cpu_to_le16(queue_size);
	req->hsqsize = cpu_to_le16(queue_size - 1);
	req->cntlid = cpu_to_le16(cntlid);
}

/**
 * weft_capsule_reject() - why a target rejected a connection
 * @data: private data of the reject
 * @len: its bytes
 *
 * Return: a sentence, or NULL where the data are no NVMe reject.
 */
const char *weft_capsule_reject(const void *data, u8 len)
{
	const struct nvme_rdma_cm_rej *rej = data;

	if (!data || len < sizeof(*rej) ||
	    rej->recfmt != cpu_to_le16(NVME_RDMA_CM_FMT_1_0))
		return NULL;
	switch (le16_to_cpu(rej->sts)) {
	case NVME_RDMA_CM_INVALID_LEN:
		return "the target cannot read our private data (length)";
	case NVME_RDMA_CM_INVALID_RECFMT:
		return "the target knows no such record format";
	case NVME_RDMA_CM_INVALID_QID:
		return "the target grants no such queue";
	case NVME_RDMA_CM_INVALID_HSQSIZE:
		return "the target refuses the queue's size (HSQSIZE)";
	case NVME_RDMA_CM_INVALID_HRQSIZE:
		return "the target refuses the queue's size (HRQSIZE)";
	case NVME_RDMA_CM_NO_RSC:
		return "the target has no resources left for a queue";
	case NVME_RDMA_CM_INVALID_IRD:
	case NVME_RDMA_CM_INVALID_ORD:
		return "the target refuses the number of RDMA reads";
	case WEFT_CM_INVALID_CNTLID:
		return "the target has no such controller";
	default:
		return "the target refuses the queue for a reason unknown here";
	}
}

/**
 * weft_capsule_flush() - Flush (NVMe base 2.1, 7.2)
 * @cmd: set, all but its id
 * @nsid: namespace
 */
void weft_capsule_flush(struct nvme_command *cmd, u32 nsid)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->common.opcode = nvme_cmd_flush;
	cmd->common.nsid = cpu_to_le32(nsid);
}

/**
 * weft_capsule_discard() - Dataset Management, one range to deallocate
 * @cmd: set, all but its id and data pointer
 * @nsid: namespace
 * @range: the data, set
 * @lba: first block
 * @blocks: how many
 */
void weft_capsule_discard(struct nvme_command *cmd, u32 nsid,
			  struct nvme_dsm_range *range, u64 lba, u32 blocks)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->dsm.opcode = nvme_cmd_dsm;
	cmd->dsm.nsid = cpu_to_le32(nsid);
	cmd->dsm.attributes = cpu_to_le32(NVME_DSMGMT_AD);
	range->cattr = 0;
	range->nlb = cpu_to_le32(blocks);
	range->slba = cpu_to_le64(lba);
}

/**
 * weft_capsule_write_zeroes() - Write Zeroes, blocks stay allocated
 * @cmd: set, all but its id
 * @nsid: namespace
 * @lba: first block
 * @blocks: 1 to 65536
 */
void weft_capsule_write_zeroes(struct nvme_command *cmd, u32 nsid, u64 lba,
			       u32 blocks)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->write_zeroes.opcode = nvme_cmd_write_zeroes;
	cmd->write_zeroes.nsid = cpu_to_le32(nsid);
	cmd->write_zeroes.slba = cpu_to_le64(lba);
	cmd->write_zeroes.length = cpu_to_le16(blocks - 1);
}

/**
 * weft_capsule_connect() - Fabrics Connect (NVMe base 2.1, 6.3)
 * @cmd: set, all but its id and data pointer
 * @qid: 0 for the admin queue
 * @queue_size: entries, at least 2
 * @kato_ms: keep-alive timeout, for the admin queue
 */
void weft_capsule_connect(struct nvme_command *cmd, u16 qid, u16 queue_size,
			  u32 kato_ms)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->connect.opcode = nvme_fabrics_command;
	cmd->connect.fctype = nvme_fabrics_type_connect;
	cmd->connect.qid = cpu_to_le16(qid);
	cmd->connect.sqsize = cpu_to_le16(queue_size - 1);
	if (!qid)
		cmd->connect.kato = cpu_to_le32(kato_ms);
}

/**
 * weft_capsule_auth() - Authentication Send, or Receive (NVMe base 2.1, 6.1 and 6.2)
 * @cmd: set, all but its id and data pointer
 * @send: Send
 * @len: bytes of the message, or of the room for it
 */
void weft_capsule_auth(struct nvme_command *cmd, bool send, u32 len)
{
	struct nvmf_auth_send_command *auth = &cmd->auth_send;

	BUILD_BUG_ON(offsetof(struct nvmf_auth_send_command, tl) !=
		     offsetof(struct nvmf_auth_receive_command, al));
	memset(cmd, 0, sizeof(*cmd));
	auth->opcode = nvme_fabrics_command;
	auth->fctype = send ? nvme_fabrics_type_auth_send : nvme_fabrics_type_auth_receive;
	auth->secp = NVME_AUTH_DHCHAP_PROTOCOL_IDENTIFIER;
	auth->spsp0 = 1;
	auth->spsp1 = 1;
	auth->tl = cpu_to_le32(len);
}

/**
 * weft_capsule_property_get() - Property Get (NVMe base 2.1, 6.4)
 * @cmd: set, all but its id
 * @offset: of the property
 * @wide: 8 bytes instead of 4
 */
void weft_capsule_property_get(struct nvme_command *cmd, u32 offset, bool wide)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->prop_get.opcode = nvme_fabrics_command;
	cmd->prop_get.fctype = nvme_fabrics_type_property_get;
	cmd->prop_get.attrib = wide;
	cmd->prop_get.offset = cpu_to_le32(offset);
}

/**
 * weft_capsule_property_set() - Property Set (NVMe base 2.1, 6.6), 4 bytes
 * @cmd: set, all but its id
 * @offset: of the property
 * @value: for it
 */
void weft_capsule_property_set(struct nvme_command *cmd, u32 offset, u32 value)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->prop_set.opcode = nvme_fabrics_command;
	cmd->prop_set.fctype = nvme_fabrics_type_property_set;
	cmd->prop_set.offset = cpu_to_le32(offset);
	cmd->prop_set.value = cpu_to_le64(value);
}

/**
 * weft_capsule_identify() - Identify (NVMe base 2.1, 5.1.13)
 * @cmd: set, all but its id and data pointer
 * @cns: what is asked
 * @nsid: of which namespace
 */
void weft_capsule_identify(struct nvme_command *cmd, u8 cns, u32 nsid)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->identify.opcode = nvme_admin_identify;
	cmd->identify.nsid = cpu_to_le32(nsid);
	cmd->identify.cns = cns;
}

/**
 * weft_capsule_log_page() - Get Log Page (NVMe base 2.1, 5.1.12)
 * @cmd: set, all but its id and data pointer
 * @lid: which
 * @bytes: from its start, a multiple of 4
 */
void weft_capsule_log_page(struct nvme_command *cmd, u8 lid, u32 bytes)
{
	u32 dwords = bytes / 4 - 1;

	memset(cmd, 0, sizeof(*cmd));
	cmd->get_log_page.opcode = nvme_admin_get_log_page;
	cmd->get_log_page.nsid = cpu_to_le32(NVME_NSID_ALL);
	cmd->get_log_page.lid = lid;
	cmd->get_log_page.numdl = cpu_to_le16(dwords & 0xffff);
	cmd->get_log_page.numdu = cpu_to_le16(dwords >> 16);
}

/**
 * weft_sgl_none() - a command without data
 * @cmd: its data pointer is set
 */
void weft_sgl_none(struct nvme_command *cmd)
{
	weft_sgl_keyed(cmd, 0, 0, 0, false);
}

/* Strings on the wire are padded with spaces, and may have any bytes. */
static void weft_info_string(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : ' ';
	while (len && to[len - 1] == ' ')
		len--;
	to[len] = '\0';
}

/**
 * weft_info_controller() - read and check Identify Controller
 * @id: the data from the target
 * @cap: the property CAP
 * @page_bytes: of the smallest memory page by CAP.MPSMIN
 * @info: set
 * @why: gets what is wrong with it
 *
 * Return: 0, or -EPROTO when this host cannot work with it.
 */
int weft_info_controller(const struct nvme_id_ctrl *id, u64 cap, u32 page_bytes,
			 struct weft_ctrl_info *info, struct weft_why *why)
{
	u32 sgls = le32_to_cpu(id->sgls);
	u32 ioccsz = le32_to_cpu(id->ioccsz);
	u32 maxcmd = le16_to_cpu(id->maxcmd);
	u16 oncs = le16_to_cpu(id->oncs);

	BUILD_BUG_ON(sizeof(struct nvme_command) != 64);
	BUILD_BUG_ON(sizeof(struct nvme_completion) != 16);

	memset(info, 0, sizeof(*info));
	if (id->cntrltype && id->cntrltype != NVME_CTRL_IO)
		return weft_refuse(why, -EPROTO,
				   "it is not an I/O controller (CNTRLTYPE %u)",
				   id->cntrltype);
	if (!(sgls & WEFT_SGLS_KEYED))
		return weft_refuse(why, -EPROTO,
				   "it takes no keyed SGLs (SGLS 0x%x), as NVMe over RDMA must",
				   sgls);
	/* In units of 16 bytes: a command alone is 4, a completion 1. */
	if (ioccsz < 4 || le32_to_cpu(id->iorcsz) < 1)
		return weft_refuse(why, -EPROTO,
				   "its capsules are smaller than a command (IOCCSZ %u, IORCSZ %u)",
				   ioccsz, le32_to_cpu(id->iorcsz));
	if (sgls & WEFT_SGLS_OFFSET && !le16_to_cpu(id->icdoff))
		info->inline_bytes = min_t(u64, (u64)(ioccsz - 4) * 16, SZ_64K);
	info->cntlid = le16_to_cpu(id->cntlid);
	info->max_bytes = WEFT_DATA_BYTES_MAX;
	if (id->mdts && id->mdts < 16)
		info->max_bytes = min_t(u64, (u64)page_bytes << id->mdts,
					WEFT_DATA_BYTES_MAX);
	info->version = le32_to_cpu(id->ver);
	info->atomic_blocks = le16_to_cpu(id->awupf) + 1;
	info->max_queue_size = (cap & 0xffff) + 1;
	if (maxcmd)
		info->max_queue_size = min(info->max_queue_size, maxcmd);
	if (info->max_queue_size < WEFT_QUEUE_SIZE_MIN)
		return weft_refuse(why, -EPROTO,
				   "its queues have less than %u entries (MQES %llu, MAXCMD %u)",
				   WEFT_QUEUE_SIZE_MIN, cap & 0xffff, maxcmd);
	/* RTD3E is in microseconds; a host waits at least 5 s and at most 60. */
	info->shutdown_ms = clamp(le32_to_cpu(id->rtd3e) / 1000, 5000U, 60000U);
	info->quiesce_ms = get_unaligned_le16((const u8 *)id + 386);
	/* KAS is in units of 100 ms. */
	info->keep_alive_unit_ms = min(le16_to_cpu(id->kas) * 100U, WEFT_KEEP_ALIVE_UNIT_MAX);
	info->traffic_keep_alive = le32_to_cpu(id->ctratt) & NVME_CTRL_ATTR_TBKAS;
	info->discard = oncs & NVME_CTRL_ONCS_DSM;
	info->write_zeroes = oncs & NVME_CTRL_ONCS_WRITE_ZEROES;
	info->ana = id->cmic & NVME_CTRL_CMIC_ANA && id->nanagrpid;
	/* Also with namespaces: some targets list them although they are not asked to. */
	info->ana_bytes = min3(sizeof(struct nvme_ana_rsp_hdr) +
			       (u64)le32_to_cpu(id->nanagrpid) *
			       sizeof(struct nvme_ana_group_desc) +
			       (u64)le32_to_cpu(id->mnan ?: id->nn) * sizeof(__le32),
			       (u64)WEFT_ANA_LOG_MAX, (u64)info->max_bytes);
	info->ana_events = info->ana && le32_to_cpu(id->oaes) & NVME_AEN_CFG_ANA_CHANGE;
	/* 0 is reserved: wait as long as the kernel's target may take. */
	info->ana_ms = (id->anatt ?: 10) * 1000;
	info->reservations = oncs & NVME_CTRL_ONCS_RESERVATIONS;
	info->ns_events = le32_to_cpu(id->oaes) & NVME_AEN_CFG_NS_ATTR;
	weft_info_string(info->model, id->mn, sizeof(id->mn));
	weft_info_string(info->serial, id->sn, sizeof(id->sn));
	weft_info_string(info->firmware, id->fr, sizeof(id->fr));
	return 0;
}

/**
 * weft_info_nvm() - read the limits of the NVM command set (NVM command set 1.1,
 * 4.1.5.2)
 * @id: the data from the target
 * @page_bytes: of the smallest memory page by CAP.MPSMIN
 * @info: of the controller, completed
 */
void weft_info_nvm(const struct nvme_id_ctrl_nvm *id, u32 page_bytes,
		   struct weft_ctrl_info *info)
{
	info->discard_blocks = min_not_zero((u64)le32_to_cpu(id->dmrsl),
					    min_t(u64, le64_to_cpu(id->dmsl), U32_MAX));
	/* As MDTS: a power of two, in pages. */
	if (id->wzsl)
		info->write_zeroes_bytes = min_t(u64, (u64)page_bytes << min(id->wzsl, 20),
						 SZ_1G);
}

/**
 * weft_info_quiet_ms() - how long a lost controller may execute commands
 * @info: the controller
 * @kato_ms: the keep-alive timeout of its Connect
 *
 * A controller with traffic based keep-alive checks once per timeout if any
 * command has arrived. So it may detect the loss two timeouts after the last
 * command, and the rule for hosts adds one more (NVMe base 2.1, 9.6, TP4129).
 * Its commands then end after at most CQT.
 *
 * Return: milliseconds since the last command could reach it.
 */
u32 weft_info_quiet_ms(const struct weft_ctrl_info *info, u32 kato_ms)
{
	if (info->keep_alive_unit_ms)
		kato_ms = roundup(kato_ms, info->keep_alive_unit_ms);
	return kato_ms * (info->traffic_keep_alive ? 3 : 2) + info->quiesce_ms;
}

/* A number of blocks as bytes, if that is a sensible power of two; otherwise 0. */
static u32 weft_info_power(u32 blocks, u8 shift)
{
	u64 bytes = (u64)blocks << shift;

	return is_power_of_2(bytes) && bytes <= WEFT_PREFERENCE_MAX ? bytes : 0;
}

/* What a namespace likes: hints, so what makes no sense is ignored. */
static void weft_info_preferences(const struct nvme_id_ns *id, struct weft_ns_info *info)
{
	u8 shift = info->lba_shift;
	u32 block = 1U << shift, boundary;
	u64 opt;

	info->write_bytes = block;
	info->discard_bytes = block;
	boundary = weft_info_power(le16_to_cpu(id->noiob), shift);
	if (boundary >= WEFT_PREFERENCE_MIN)
		info->boundary_blocks = boundary >> shift;
	if (id->nsfeat & NVME_NS_FEAT_ATOMICS) {
		if (id->nawupf)
			info->atomic_bytes = weft_info_power(le16_to_cpu(id->nawupf) + 1, shift) ?:
					     block;
		if (id->nabspf)
			info->atomic_boundary = weft_info_power(le16_to_cpu(id->nabspf) + 1,
								shift) ?: block;
		/* Boundaries do not begin at the first block. */
		if (id->nabo)
			info->atomic_boundary = block;
	}
	if (!(id->nsfeat & WEFT_NS_OPTPERF))
		return;
	info->write_bytes = weft_info_power(le16_to_cpu(id->npwg) + 1, shift) ?: block;
	info->discard_bytes = weft_info_power(le16_to_cpu(id->npdg) + 1, shift) ?: block;
	/* One block is what targets say that have no preference. */
	opt = id->nows ? (u64)(le16_to_cpu(id->nows) + 1) << shift : 0;
	if (opt <= WEFT_PREFERENCE_MAX && !(opt & (info->write_bytes - 1)))
		info->write_opt_bytes = opt;
}

/**
 * weft_info_namespace() - read and check Identify Namespace
 * @id: as it came
 * @info: set, except @info->id, which weft_info_descriptors() and
 *	weft_info_identity() complete
 * @why: gets what is wrong with it
 *
 * Return: 0; -ENODEV for a namespace that does not exist; -EOPNOTSUPP for one
 * that cannot be used.
 */
int weft_info_namespace(const struct nvme_id_ns *id, struct weft_ns_info *info,
			struct weft_why *why)
{
	u8 format = (id->flbas & 0xf) | (id->flbas & 0x60) >> 1;
	const struct nvme_lbaf *lbaf;

	memset(info, 0, sizeof(*info));
	info->blocks = le64_to_cpu(id->nsze);
	if (!info->blocks)
		return weft_refuse(why, -ENODEV, "the namespace is not active");
	if (format >= ARRAY_SIZE(id->lbaf))
		return weft_refuse(why, -EOPNOTSUPP,
				   "it names format %u of %zu", format,
				   ARRAY_SIZE(id->lbaf));
	lbaf = &id->lbaf[format];
	if (le16_to_cpu(lbaf->ms))
		return weft_refuse(why, -EOPNOTSUPP,
				   "its format has %u bytes of metadata a block, which weft does not serve; 'nvme format' can change that",
				   le16_to_cpu(lbaf->ms));
	if (lbaf->ds != WEFT_LBA_SHIFT_MIN && lbaf->ds != WEFT_LBA_SHIFT_MAX)
		return weft_refuse(why, -EOPNOTSUPP,
				   "its blocks are 2^%u bytes; weft serves 512 and 4096",
				   lbaf->ds);
	info->lba_shift = lbaf->ds;
	/* The size in bytes must fit 63 bits. */
	if (info->blocks > (u64)LLONG_MAX >> info->lba_shift)
		return weft_refuse(why, -EOPNOTSUPP,
				   "it claims to have %llu blocks", info->blocks);
	info->read_only = id->nsattr & NVME_NS_ATTR_RO;
	info->persistent_reservations = id->rescap & BIT(0);
	info->ana_group = le32_to_cpu(id->anagrpid);
	weft_info_preferences(id, info);
	memcpy(info->id.eui64, id->eui64, sizeof(info->id.eui64));
	memcpy(info->id.nguid, id->nguid, sizeof(info->id.nguid));
	return 0;
}

/**
 * weft_info_descriptors() - read and check the namespace descriptors
 * @list: 4096 bytes
 * @id: the fields that are in the list are set
 * @why: gets what is wrong with it
 *
 * Return: 0; -EPROTO; -EOPNOTSUPP for a namespace of another command set.
 */
int weft_info_descriptors(const void *list, struct weft_ns_id *id,
			  struct weft_why *why)
{
	size_t pos = 0;
	u8 csi = NVME_CSI_NVM;

	while (pos + sizeof(struct nvme_ns_id_desc) <= NVME_IDENTIFY_DATA_SIZE) {
		const struct nvme_ns_id_desc *desc = list + pos;
		const void *value = desc + 1;
		void *to = NULL;
		size_t len = 0;

		if (!desc->nidl)
			break;
		switch (desc->nidt) {
		case NVME_NIDT_EUI64:
			to = id->eui64;
			len = sizeof(id->eui64);
			break;
		case NVME_NIDT_NGUID:
			to = id->nguid;
			len = sizeof(id->nguid);
			break;
		case NVME_NIDT_UUID:
			to = id->uuid;
			len = sizeof(id->uuid);
			break;
		case NVME_NIDT_CSI:
			to = &csi;
			len = sizeof(csi);
			break;
		}
		pos += sizeof(*desc) + desc->nidl;
		if (pos > NVME_IDENTIFY_DATA_SIZE || (to && desc->nidl != len))
			return weft_refuse(why, -EPROTO,
					   "its descriptor of type %u is %u bytes long",
					   desc->nidt, desc->nidl);
		if (to)
			memcpy(to, value, len);
	}
	if (csi)
		return weft_refuse(why, -EOPNOTSUPP,
				   "it has the command set %u; weft serves NVM (0)", csi);
	return 0;
}

/**
 * weft_info_ana() - find a group's state in the ANA log page (NVMe base 2.1,
 * 5.1.12.1.13)
 * @log: the log page as it came
 * @bytes: its length
 * @group: the group
 *
 * Return: enum nvme_ana_state; -ENOENT if the group is not there; -EPROTO for a
 * log page or a state that cannot be.
 */
int weft_info_ana(const void *log, u32 bytes, u32 group)
{
	const struct nvme_ana_rsp_hdr *header = log;
	u32 left, at = sizeof(*header);
	u8 state;

	if (bytes < sizeof(*header))
		return -EPROTO;
	for (left = le16_to_cpu(header->ngrps); left; left--) {
		const struct nvme_ana_group_desc *desc = log + at;

		if (bytes - at < sizeof(*desc))
			return -EPROTO;
		at += sizeof(*desc);
		if (le32_to_cpu(desc->grpid) != group) {
			/* Namespaces may follow, although they were not asked for. */
			if (le32_to_cpu(desc->nnsids) > (bytes - at) / sizeof(__le32))
				return -EPROTO;
			at += le32_to_cpu(desc->nnsids) * sizeof(__le32);
			continue;
		}
		state = desc->state & 0xf;
		return (state >= NVME_ANA_OPTIMIZED && state <= NVME_ANA_PERSISTENT_LOSS) ||
		       state == NVME_ANA_CHANGE ? state : -EPROTO;
	}
	return -ENOENT;
}

static bool weft_info_has_id(const struct weft_ns_id *id)
{
	return memchr_inv(id->eui64, 0, sizeof(id->eui64)) ||
	       memchr_inv(id->nguid, 0, sizeof(id->nguid)) ||
	       memchr_inv(id->uuid, 0, sizeof(id->uuid));
}

/**
 * weft_info_identity() - complete the identity of a namespace without an id
 * @ctrl: its controller
 * @id: all ids that the namespace has are set
 *
 * After a target renumbers its disks, or another target takes its address, the
 * same number leads to another disk. A namespace with an id is identified by it
 * alone, because a controller's serial number may change at a boot.
 */
void weft_info_identity(const struct weft_ctrl_info *ctrl, struct weft_ns_id *id)
{
	BUILD_BUG_ON(sizeof(id->model) != sizeof(ctrl->model) ||
		     sizeof(id->serial) != sizeof(ctrl->serial));
	if (weft_info_has_id(id))
		return;
	memcpy(id->model, ctrl->model, sizeof(id->model));
	memcpy(id->serial, ctrl->serial, sizeof(id->serial));
}

/**
 * weft_info_same_disk() - do two controllers have the same namespace?
 * @a: its identity by the first
 * @b: by the second, which may be of another subsystem
 *
 * Return: true if it is known to be the same; false without an id, too.
 */
bool weft_info_same_disk(const struct weft_ns_id *a, const struct weft_ns_id *b)
{
	return weft_info_has_id(a) && !memcmp(a->uuid, b->uuid, sizeof(a->uuid)) &&
	       !memcmp(a->nguid, b->nguid, sizeof(a->nguid)) &&
	       !memcmp(a->eui64, b->eui64, sizeof(a->eui64));
}

static bool weft_id_differs(const u8 *a, const u8 *b, size_t size)
{
	return memchr_inv(a, 0, size) && memchr_inv(b, 0, size) && memcmp(a, b, size);
}

/**
 * weft_info_other_disk() - do two controllers have different namespaces?
 * @a: its identity by the first
 * @b: by the second
 *
 * Targets may give a disk ids of different kinds, which say nothing.
 *
 * Return: true if ids of the same kind differ.
 */
bool weft_info_other_disk(const struct weft_ns_id *a, const struct weft_ns_id *b)
{
	return weft_id_differs(a->uuid, b->uuid, sizeof(a->uuid)) ||
	       weft_id_differs(a->nguid, b->nguid, sizeof(a->nguid)) ||
	       weft_id_differs(a->eui64, b->eui64, sizeof(a->eui64));
}

/**
 * weft_info_same() - is a namespace the one that it was?
 * @was: with its identity
 * @is: likewise
 * @why: gets what differs, if it is another one
 *
 * One with an id may have another size now. Of one without, the size is all that
 * tells it from another disk of the same controller.
 *
 * Return: true if it is.
 */
bool weft_info_same(const struct weft_ns_info *was, const struct weft_ns_info *is,
		    struct weft_why *why)
{
	const struct weft_ns_id *a = &was->id, *b = &is->id;
	int differs = 0;

	if (memcmp(a->uuid, b->uuid, sizeof(a->uuid)))
		differs = weft_refuse(why, 1, "its UUID is %pUb, before %pUb", b->uuid, a->uuid);
	else if (memcmp(a->nguid, b->nguid, sizeof(a->nguid)))
		differs = weft_refuse(why, 1, "its NGUID is %16phN, before %16phN", b->nguid,
				      a->nguid);
	else if (memcmp(a->eui64, b->eui64, sizeof(a->eui64)))
		differs = weft_refuse(why, 1, "its EUI-64 is %8phN, before %8phN", b->eui64,
				      a->eui64);
	else if (strcmp(a->model, b->model) || strcmp(a->serial, b->serial))
		differs = weft_refuse(why, 1, "its controller is %s %s, before %s %s", b->model,
				      b->serial, a->model, a->serial);
	else if (was->lba_shift != is->lba_shift)
		differs = weft_refuse(why, 1, "its blocks have %u bytes, before %u",
				      1U << is->lba_shift, 1U << was->lba_shift);
	else if (!weft_info_has_id(a) && was->blocks != is->blocks)
		differs = weft_refuse(why, 1, "it has %llu blocks, before %llu, and no identifier",
				      is->blocks, was->blocks);
	return !differs;
}
