// SPDX-License-Identifier: GPL-2.0-only
/// What a model's training state is, in bytes: in a checkpoint, and in the memory of a GPU.
#pragma once

#include "units.hpp"

#include <optional>

namespace weft::plan
{

enum class precision { fp32, bf16, fp16, fp8 };
enum class optimizer { adamw, adam, adamw_8bit, lion, momentum, sgd, adafactor, none };
/// What the replicas of data parallelism share out among them: stages 0 to 3 of ZeRO (Rajbhandari et al.
/// 2020); `full` is FSDP, too.
enum class sharding { none, optimizer, gradients, full };
/// Which activations are computed again in the backward pass (Korthikanti et al. 2022).
enum class recompute { none, selective, full };

struct model {
    double parameters = 0;
    precision weights = precision::bf16;
    optimizer trained_by = optimizer::adamw;
    /// Of the optimizer's moments; as the weights' otherwise.
    std::optional<precision> states;
    /// A copy of the weights in fp32, as mixed precision keeps it (Micikevicius et al. 2018).
    bool master = false;
    // Of a transformer; 0 if unknown.
    count layers = 0;
    count hidden = 0; ///< width
    count heads = 0;
    count sequence = 0;    ///< tokens of one sample
    count micro_batch = 1; ///< samples of one forward pass of one replica
    recompute again = recompute::selective;
};

struct parallelism {
    count tensor = 1;
    count pipeline = 1;
    count data = 1;
    sharding shared = sharding::full;
    [[nodiscard]] count gpus() const { return tensor * pipeline * data; }
};

/// Bytes of one number.
[[nodiscard]] double bytes_each(precision of);
/// How many numbers an optimizer keeps for one parameter: Adam and AdamW two moments (Kingma and Ba 2015),
/// SGD with momentum and Lion one (Chen et al. 2023), Adafactor a row and a column of a matrix, which counts
/// as none (Shazeer and Stern 2018).
[[nodiscard]] int moments_of(optimizer of);
/// Bytes of one moment: one for adamw-8bit (Dettmers et al. 2022), else by `states`.
[[nodiscard]] double moment_bytes(const model& of);

/// The parts of a checkpoint.
struct state_sizes {
    bytes weights;
    bytes master;
    bytes moments;
    [[nodiscard]] bytes total() const { return weights + master + moments; }
};

/// Parameters times bytes a parameter. ZeRO (Rajbhandari et al. 2020, section 3.1) counts the same way: 2 for
/// weights in fp16, and 4 + 4 + 4 for a master copy and two moments in fp32.
[[nodiscard]] state_sizes sizes_of(const model& of);

/// What one GPU holds.
struct memory_use {
    bytes weights;
    bytes gradients;
    bytes optimizer; ///< master copy and moments
    /// None if the shape of the model is unknown.
    std::optional<bytes> activations;
    bytes reserve; ///< for the runtime, libraries and fragments
    bytes capacity;
    [[nodiscard]] bytes total() const;
    [[nodiscard]] bool fits() const { return total() <= capacity; }
    /// What has to be swapped; 0 if all fits.
    [[nodiscard]] bytes excess() const;
};

/// Weights, gradients and optimizer states divide by tensor and pipeline, and those that are sharded by data,
/// too (Rajbhandari et al. 2020, figure 1). Gradients have the weights' precision.
[[nodiscard]] memory_use memory_of(const model& of, const parallelism& by, bytes capacity, bytes reserve);

/// Activations of the first stage, of 16 bits each: s tokens, b samples, h wide, a heads, t tensor parallel,
/// with sequence parallelism. A layer has sbh/t (34 + 5as/h) without recomputation, 34 sbh/t where attention
/// is computed again, and 2 sbh where all is (Korthikanti et al. 2022, "Reducing activation recomputation in
/// large transformer models", table 2). The first stage holds as many micro-batches as there are stages, so
/// all layers' worth (its section on pipeline parallelism).
[[nodiscard]] std::optional<bytes> activations_of(const model& of, const parallelism& by);

} // namespace weft::plan
