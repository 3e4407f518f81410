# SPDX-License-Identifier: GPL-2.0-only
#
# Whose RDMA stack a module that uses ib_core is built for. OFED and DOCA bring
# an ib_core of their own, with headers and symbol versions in
# /usr/src/ofa_kernel; where those are for this kernel, they count and not the
# kernel's. kmod/check-build refuses when they are not what will be loaded.
#
# Include it in the Kbuild at the top, which modpost reads, and in that of the
# folder whose objects use ib_core, with
#	NOSTDINC_FLAGS += $(WEFT_RDMA_INCLUDE)
# there: those paths come before the kernel's own.

weft-ofa-root := $(if $(WEFT_OFA_ROOT),$(WEFT_OFA_ROOT),/usr/src/ofa_kernel)
weft-ofa := $(firstword $(wildcard $(weft-ofa-root)/$(shell uname -m)/$(KERNELRELEASE) $(weft-ofa-root)/$(KERNELRELEASE)))

ifneq ($(weft-ofa),)
WEFT_RDMA_INCLUDE := -I$(weft-ofa)/include -I$(weft-ofa)/include/uapi \
	$(if $(wildcard $(weft-ofa)/include/linux/compat-2.6.h),-include $(weft-ofa)/include/linux/compat-2.6.h)
KBUILD_EXTRA_SYMBOLS += $(weft-ofa)/Module.symvers
endif
