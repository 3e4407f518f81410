/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Encoding and checking of the wire formats: commands, SGL descriptors, the
 * private data of a connection, and identify data. This code does not sleep,
 * allocate or use verbs.
 */
#ifndef WEFT_RDMA_CAPSULE_H
#define WEFT_RDMA_CAPSULE_H

#include <linux/nvme.h>
#include <linux/nvme-rdma.h>
#include <linux/types.h>

#include "../compat/compat.h"

struct weft_why;

/*
 * Private data of the CM request (NVMe/RDMA transport 1.1, figure 8). The
 * kernel's struct nvme_rdma_cm_req has no cntlid on 6.1.
 */
struct weft_cm_request {
	__le16	recfmt;
	__le16	qid;
	__le16	hrqsize;
	__le16	hsqsize;
	__le16	cntlid;
	u8	rsvd[22];
};

/* SGL descriptor types and subtypes (NVMe base 2.1, figures 114 to 120). */
#define WEFT_SGL_INLINE		0x01	/* data block, offset */
#define WEFT_SGL_KEYED		0x40
#define WEFT_SGL_KEYED_INVAL	0x4f

/* Bits of SGLS in Identify Controller (NVMe base 2.1, figure 313). */
#define WEFT_SGLS_KEYED		BIT(2)
#define WEFT_SGLS_OFFSET	BIT(20)

/* Of the result of Connect: the target wants authentication, or that and a secure channel. */
#define WEFT_CONNECT_ATR	BIT(17)
#define WEFT_CONNECT_ASCR	BIT(18)

/* Preferences beyond these are no hint for the block layer. */
#define WEFT_PREFERENCE_MIN	SZ_64K	/* NOIOB: each smaller one would split most requests */
#define WEFT_PREFERENCE_MAX	SZ_16M

/* NPWG, NPDG and NOWS are defined (Identify Namespace, NSFEAT.OPTPERF). */
#define WEFT_NS_OPTPERF		BIT(4)

/* 32 bytes for each group, and 4 for each namespace; less than an internal command takes. */
#define WEFT_ANA_LOG_MAX	SZ_64K

/* Entries of a queue: Connect has one of its own, and one always stays free. */
#define WEFT_QUEUE_SIZE_MIN	3

/* Of one Write Zeroes: its field for them has 16 bits. */
#define WEFT_WRITE_ZEROES_BLOCKS	65536U

/*
 * KAS, in milliseconds, is believed up to here: what is lost waits for twice or
 * three times the keep-alive timeout, which the target rounds up to it.
 */
#define WEFT_KEEP_ALIVE_UNIT_MAX	(600U * 1000)

/* A command identifier: the tag, and above it a number that changes with each use. */
#define WEFT_CID_TAG_BITS	12
#define WEFT_CID_TAG(cid)	((cid) & (BIT(WEFT_CID_TAG_BITS) - 1))
#define WEFT_CID_NEXT(cid)	((u16)((cid) + BIT(WEFT_CID_TAG_BITS)))

/* Blocks of 512 and 4096 bytes, as shifts. */
#define WEFT_LBA_SHIFT_MIN	9
#define WEFT_LBA_SHIFT_MAX	12

/**
 * struct weft_ctrl_info - identify data of a controller, checked
 * @cntlid: its id
 * @inline_bytes: of data that a command capsule takes, 0 for none
 * @max_bytes: of data in one command
 * @discard_blocks: in one Dataset Management with one range (DMRSL, DMSL), 0 for
 *	no limit
 * @write_zeroes_bytes: in one Write Zeroes (WZSL), 0 for no limit
 * @atomic_blocks: written as a whole also at a power cut (AWUPF)
 * @max_queue_size: entries, from CAP.MQES and MAXCMD
 * @shutdown_ms: and to shut down
 * @quiesce_ms: how long commands may live on after the controller lost us
 *	(CQT), 0 where it does not tell
 * @keep_alive_unit_ms: it rounds keep-alive timeouts up to multiples of this (KAS)
 * @version: of the specification (VER), as NVME_VS()
 * @traffic_keep_alive: any command keeps the association alive (CTRATT.TBKAS)
 * @discard: knows Dataset Management
 * @write_zeroes: knows Write Zeroes
 * @reservations: knows them
 * @ns_events: tells when a namespace changed
 * @ana: reports asymmetric namespace access (CMIC bit 3)
 * @ana_events: tells when that changed
 * @ana_ms: a change of an ANA state takes at most so long (ANATT)
 * @ana_bytes: of its log page at most, with namespaces (NANAGRPID, MNAN), limited
 *	to WEFT_ANA_LOG_MAX
 * @model: printable
 * @serial: printable
 * @firmware: printable
 */
struct weft_ctrl_info {
	u16	cntlid;
	u32	inline_bytes;
	u32	max_bytes;
	u32	discard_blocks;
	u32	write_zeroes_bytes;
	u32	atomic_blocks;
	u32	max_queue_size;
	u32	shutdown_ms;
	u32	quiesce_ms;
	u32	keep_alive_unit_ms;
	u32	version;
	bool	traffic_keep_alive;
	bool	discard;
	bool	write_zeroes;
	bool	reservations;
	bool	ns_events;
	bool	ana;
	bool	ana_events;
	u32	ana_ms;
	u32	ana_bytes;
	char	model[41];
	char	serial[21];
	char	firmware[9];
};

/**
 * struct weft_ns_id - identity of a namespace (NVMe base 2.1, 5.1.13.2.3)
 * @eui64: or zeroes
 * @nguid: or zeroes
 * @uuid: or zeroes
 * @model: the controller's model if it has none of these ids, else empty
 * @serial: the controller's serial number if it has none of these, else empty
 */
struct weft_ns_id {
	u8	eui64[8];
	u8	nguid[16];
	u8	uuid[16];
	char	model[41];
	char	serial[21];
};

/**
 * struct weft_ns_info - identify data of a namespace, checked
 * @id: its identity
 * @blocks: its size in blocks
 * @lba_shift: log2 of the block size
 * @atomic_bytes: written as a whole also at a power cut (NAWUPF), 0 if the
 *	controller's applies
 * @atomic_boundary: a write that crosses a multiple of it may be torn (NABSPF), in
 *	bytes; 0 for none
 * @write_bytes: preferred granularity of writes (NPWG), or its block size
 * @write_opt_bytes: preferred size of writes (NOWS), 0 for none
 * @discard_bytes: preferred granularity of discards (NPDG), or its block size
 * @boundary_blocks: commands that do not cross a multiple of it are faster
 *	(NOIOB), 0 for none, or a power of two
 * @ana_group: its ANA group (ANAGRPID); 0 if the controller does not report ANA
 * @read_only: write protected
 * @persistent_reservations: it can keep them over a power loss (RESCAP bit 0)
 */
struct weft_ns_info {
	struct weft_ns_id	id;
	u64			blocks;
	u32			atomic_bytes;
	u32			atomic_boundary;
	u32			write_bytes;
	u32			write_opt_bytes;
	u32			discard_bytes;
	u32			boundary_blocks;
	u32			ana_group;
	u8			lba_shift;
	bool			read_only;
	bool			persistent_reservations;
};

void weft_capsule_cm_request(struct weft_cm_request *req, u16 qid,
			     u16 queue_size, u16 cntlid);
const char *weft_capsule_reject(const void *data, u8 len);

void weft_capsule_flush(struct nvme_command *cmd, u32 nsid);
void weft_capsule_discard(struct nvme_command *cmd, u32 nsid,
			  struct nvme_dsm_range *range, u64 lba, u32 blocks);
void weft_capsule_write_zeroes(struct nvme_command *cmd, u32 nsid, u64 lba,
			       u32 blocks);
void weft_capsule_connect(struct nvme_command *cmd, u16 qid, u16 queue_size,
			  u32 kato_ms);
void weft_capsule_auth(struct nvme_command *cmd, bool send, u32 len);
void weft_capsule_property_get(struct nvme_command *cmd, u32 offset, bool wide);
void weft_capsule_property_set(struct nvme_command *cmd, u32 offset, u32 value);
void weft_capsule_identify(struct nvme_command *cmd, u8 cns, u32 nsid);
void weft_capsule_log_page(struct nvme_command *cmd, u8 lid, u32 bytes);

void weft_sgl_none(struct nvme_command *cmd);

int weft_info_controller(const struct nvme_id_ctrl *id, u64 cap, u32 page_bytes,
			 struct weft_ctrl_info *info, struct weft_why *why);
void weft_info_nvm(const struct nvme_id_ctrl_nvm *id, u32 page_bytes,
		   struct weft_ctrl_info *info);
u32 weft_info_quiet_ms(const struct weft_ctrl_info *info, u32 kato_ms);
int weft_info_namespace(const struct nvme_id_ns *id, struct weft_ns_info *info,
			struct weft_why *why);
int weft_info_ana(const void *log, u32 bytes, u32 group);
void weft_info_identity(const struct weft_ctrl_info *ctrl, struct weft_ns_id *id);
bool weft_info_same_disk(const struct weft_ns_id *a, const struct weft_ns_id *b);
bool weft_info_other_disk(const struct weft_ns_id *a, const struct weft_ns_id *b);
bool weft_info_same(const struct weft_ns_info *was, const struct weft_ns_info *is,
		    struct weft_why *why);
int weft_info_descriptors(const void *list, struct weft_ns_id *id,
			  struct weft_why *why);

/**
 * weft_capsule_rw() - Read or Write (NVM command set 1.1, 3.2.4, 3.2.6)
 * @cmd: set, all but its id and data pointer
 * @nsid: namespace
 * @write: or read
 * @fua: past the controller's cache
 * @lba: first block
 * @blocks: 1 to 65536
 *
 * Inline, as weft_sgl_keyed(), and word by word because it runs for every I/O.
 */
static inline void weft_capsule_rw(struct nvme_command *cmd, u32 nsid, bool write, bool fua,
				   u64 lba, u32 blocks)
{
	cmd->rw.opcode = write ? nvme_cmd_write : nvme_cmd_read;
	cmd->rw.flags = 0;
	cmd->rw.nsid = cpu_to_le32(nsid);
	cmd->common.cdw2[0] = 0;
	cmd->common.cdw2[1] = 0;
	cmd->rw.metadata = 0;
	cmd->rw.slba = cpu_to_le64(lba);
	cmd->rw.length = cpu_to_le16(blocks - 1);
	cmd->rw.control = fua ? cpu_to_le16(NVME_RW_FUA) : 0;
	cmd->common.cdw13 = 0;
	cmd->common.cdw14 = 0;
	cmd->common.cdw15 = 0;
}

/**
 * weft_sgl_keyed() - data are fetched or put by RDMA
 * @cmd: its data pointer is set
 * @addr: as registered
 * @len: bytes, less than 16 MiB
 * @key: remote key
 * @invalidate: the target is to invalidate the key with its response
 */
static inline void weft_sgl_keyed(struct nvme_command *cmd, u64 addr, u32 len, u32 key,
				  bool invalidate)
{
	u64 type = invalidate ? WEFT_SGL_KEYED_INVAL : WEFT_SGL_KEYED;
	__le64 *sgl = (__le64 *)&cmd->common.dptr.ksgl;

	static_assert(sizeof(cmd->common.dptr.ksgl) == 2 * sizeof(*sgl));
	cmd->common.flags |= NVME_CMD_SGL_METABUF;
	sgl[0] = cpu_to_le64(addr);
	/* 24 bits of length, 32 of key, 8 of type. */
	sgl[1] = cpu_to_le64(len | (u64)key << 24 | type << 56);
}

/**
 * weft_sgl_inline() - data follow the command in its capsule
 * @cmd: its data pointer is set
 * @len: bytes
 */
static inline void weft_sgl_inline(struct nvme_command *cmd, u32 len)
{
	__le64 *sgl = (__le64 *)&cmd->common.dptr.sgl;

	cmd->common.flags |= NVME_CMD_SGL_METABUF;
	sgl[0] = 0;
	/* 32 bits of length, 24 reserved, 8 of type. */
	sgl[1] = cpu_to_le64(len | (u64)WEFT_SGL_INLINE << 56);
}

#endif /* WEFT_RDMA_CAPSULE_H */
