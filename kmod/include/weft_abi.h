/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of symbols that modules of one build share.
 *
 * DOC: an upgrade
 *
 * The modules are loaded one by one. While an old one stays loaded, a new one may be
 * installed that has another idea of the structures in this folder, and only kernels with
 * CONFIG_MODVERSIONS would refuse it. So the functions through which a module comes to use
 * another one have names with a hash of these headers: the kernel then says that the
 * symbol is unknown, and does not load the module.
 */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#define WEFT_ABI_PASTE(name, id)	name ## _ ## id
#define WEFT_ABI_EXPAND(name, id)	WEFT_ABI_PASTE(name, id)
/* kmod/Kbuild sets the hash. */
#define WEFT_ABI(name)			WEFT_ABI_EXPAND(name, WEFT_ABI_ID)

#endif /* WEFT_ABI_H */
