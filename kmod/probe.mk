# SPDX-License-Identifier: GPL-2.0-only
#
# Searches the kernel's headers for APIs that no macro shows. Each line sets
# -DWEFT_HAVE_<name> if its pattern is found. It needs no compiler and takes
# 0.1 s. Only kmod/compat/ uses the results.

weft-include := $(srctree)/include
weft-probe = $(if $(shell grep -lE '$(3)' $(weft-include)/$(2) 2>/dev/null),-DWEFT_HAVE_$(1))

WEFT_PROBES := \
	$(call weft-probe,WQ_PERCPU,linux/workqueue.h,WQ_PERCPU) \
	$(call weft-probe,ACCT_END_SECTORS,linux/blkdev.h,unsigned int sectors. unsigned long start_time) \
	$(call weft-probe,REQ_ATOMIC,linux/blk_types.h,__REQ_ATOMIC) \
	$(call weft-probe,BD_MAPPING,linux/blk_types.h,bd_mapping) \
	$(call weft-probe,WZEROES_UNMAP,linux/blkdev.h,max_hw_wzeroes_unmap_sectors) \
	$(call weft-probe,CRYPTO_UTILS,crypto/utils.h,crypto_memneq) \
	$(call weft-probe,LINUX_UNALIGNED,linux/unaligned.h,get_unaligned) \
	$(call weft-probe,INIT_REQUEST_INT,linux/blk-mq.h,unsigned int. int.;) \
	$(call weft-probe,END_IO_BATCH,linux/blk-mq.h,^[[:space:]]+const struct io_comp_batch ..;) \
	$(call weft-probe,MAP_SG_QUEUE,linux/blk-mq.h,blk_rq_map_sg.struct request_queue) \
	$(call weft-probe,MAP_KERN_QUEUE,linux/blk-mq.h,blk_rq_map_kern.struct request_queue) \
	$(call weft-probe,DEVNODE_CONST,linux/device/class.h,devnode..const struct device) \
	$(call weft-probe,URING_CMD_H,linux/io_uring/cmd.h,io_uring_cmd) \
	$(call weft-probe,URING_CANCEL,linux/io_uring/cmd.h,io_uring_cmd_mark_cancelable) \
	$(call weft-probe,INVALIDATE_MAPPINGS,linux/dma-buf.h,invalidate_mappings) \
	$(call weft-probe,PHYS_VEC,linux/dma-buf-mapping.h,dma_buf_phys_vec_to_sgt) \
	$(call weft-probe,VM_FLAGS_SET,linux/mm.h,vm_flags_set) \
	$(call weft-probe,ATTACH_SGT,linux/dma-buf.h,^[[:space:]]+struct sg_table .sgt;) \
	$(call weft-probe,ATTACH_REVOCABLE,linux/dma-buf.h,dma_buf_attach_revocable) \
	$(call weft-probe,GET_FILE_ACTIVE,linux/fs.h,get_file_active) \
	$(call weft-probe,RW_VERIFY_AREA,linux/fs.h,rw_verify_area) \
	$(call weft-probe,GUP_UNSHARE_HERE,linux/mm.h,gup_must_unshare) \
	$(call weft-probe,VMAP_UNLOCKED,linux/dma-buf.h,dma_buf_vmap_unlocked) \
	$(call weft-probe,JOURNAL_META,linux/jbd2.h,JBD2_JOURNAL_REQ_FLAGS) \
	$(call weft-probe,HRTIMER_SETUP,linux/hrtimer.h,void hrtimer_setup.struct) \
	$(call weft-probe,RQ_LIST,linux/blk-mq.h,rq_list_pop.struct rq_list) \
	$(call weft-probe,DMA_SKIP_SYNC,linux/device.h,dma_skip_sync) \
	$(call weft-probe,FREEZE_MEMFLAGS,linux/blk-mq.h,blk_mq_freeze_queue_nomemsave)
