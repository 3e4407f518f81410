# SPDX-License-Identifier: GPL-2.0-only
#
# Selects the RDMA stack that a module with ib_core is built for. OFED and DOCA
# bring their own ib_core, with headers and symbol versions in
# /usr/src/ofa_kernel. If these exist for this kernel, they are used instead of
# the kernel's. kmod/check-build refuses a build if another ib_core is
# installed.
#
# Include it in the top Kbuild, which modpost reads, and in the Kbuild of the
# folder whose objects use ib_core. Add there
#	NOSTDINC_FLAGS += $(WEFT_RDMA_INCLUDE)
# which puts these paths before the kernel's own.

weft-ofa-root := $(if $(WEFT_OFA_ROOT),$(WEFT_OFA_ROOT),/usr/src/ofa_kernel)
weft-ofa := $(firstword $(wildcard $(weft-ofa-root)/$(shell uname -m)/$(KERNELRELEASE) $(weft-ofa-root)/$(KERNELRELEASE)))

ifneq ($(weft-ofa),)
WEFT_RDMA_INCLUDE := -I$(weft-ofa)/include -I$(weft-ofa)/include/uapi \
	$(if $(wildcard $(weft-ofa)/include/linux/compat-2.6.h),-include $(weft-ofa)/include/linux/compat-2.6.h)
KBUILD_EXTRA_SYMBOLS += $(weft-ofa)/Module.symvers
endif
