/* SPDX-License-Identifier: GPL-2.0-only */
/* What programs that are built against the stand-in for CUDA use of its driver interface. */
#ifndef WEFT_STANDIN_CUDA_H
#define WEFT_STANDIN_CUDA_H

typedef int CUresult;
typedef struct CUstream_st *CUstream;

#endif
