// SPDX-License-Identifier: GPL-2.0-only
/// What the target is told to do.
#pragma once

#include <string>
#include <vector>

/// Bytes of data for which a capsule has room.
constexpr unsigned inline_size = 8192;
/// Of a queue.
constexpr unsigned depth = 32;

struct options {
    std::vector<std::string> addresses;
    unsigned port = 4420;
    std::string fault = "none";
    unsigned at = 1;
    unsigned keep_s = 3;            ///< how long a write is withheld
    bool refuse = false;            ///< late-write: the second copy of the withheld write fails
    bool stays = false;             ///< late-write: the association goes on, and the write gets no answer
    bool deaf = false;              ///< late-write: the host has admin commands alone, until SIGUSR1
    bool traffic = false;           ///< any command keeps the association alive (CTRATT.TBKAS)
    bool anonymous = false;         ///< the namespace has no id
    bool cacheless = false;         ///< the controller has no volatile write cache
    bool picky = false;             ///< it has preferences, and limits of discards and of writes of zeroes
    bool limitless = false;         ///< it does not know the list of limits (Identify, CNS 06h)
    unsigned shutdown_s = 0;        ///< how long a shutdown takes
    bool keeps_keys = false;        ///< responses invalidate no keys
    unsigned floor_s = 0;           ///< its shortest keep-alive timeout
    bool holds_admin = false;       ///< pause: all commands wait, Keep Alive and Connect included
    bool unarmed = false;           ///< SIGUSR2 arms the fault
    bool auth = false;              ///< hosts have to authenticate
    bool dh = false;                ///< with ffdhe2048
    std::vector<int> ana;           ///< enum nvme_ana_state by each of the addresses; SIGUSR1 rotates them
    unsigned namespaces = 1;        ///< of the one disk
    unsigned entries = depth;       ///< of a queue, as it says
    unsigned grant = 65536;         ///< I/O queues at most
    unsigned mdts = 6;              ///< 2^6 pages: 256 KiB
    unsigned capsule = inline_size; ///< bytes of data in a capsule at most, as it says
    unsigned wzsl = 5;              ///< if picky, a Write Zeroes is at most 2^5 pages: 128 KiB
    unsigned dmrsl = 2048;          ///< if picky, a discard is at most so many blocks: 1 MiB
    std::string serial = "hostile";
    std::string host_secret; ///< file of the secret that hosts have to know; without it all are accepted
    std::string ctrl_secret; ///< file of the target's secret; without it the target sends no response

    /// Returns false, and says what the options are, if they are not understood.
    bool parse(int argc, char** argv);

private:
    /// Returns false for an option that is not known.
    bool set(const std::string& word, const char* value);
};
