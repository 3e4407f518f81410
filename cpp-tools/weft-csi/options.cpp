// SPDX-License-Identifier: GPL-2.0-only
#include "options.hpp"

namespace weft
{

void add_options(CLI::App& app, csi_options& options)
{
    app.name("weft-csi");
    app.description(csi_description);
    app.set_version_flag("--version", std::string("weft-csi ") + WEFT_VERSION);
    app.add_option("--kubelet", options.kubelet,
                   "folder of Kubernetes' kubelet; default /var/lib/kubelet. The sockets are "
                   "plugins/weft.csi/csi.sock and plugins_registry/weft.csi-reg.sock below it; only root can "
                   "open them")
        ->type_name("FOLDER");
    app.add_option("--endpoint", options.endpoint,
                   "use this one socket, for an orchestrator other than Kubernetes")
        ->type_name("unix:///PATH");
    app.add_option("--node-id", options.node_id,
                   "name of this node for the orchestrator; default the host's name")
        ->type_name("NAME");
    app.footer(
        R"(An orchestrator such as Kubernetes calls it when a container that uses a volume starts or ends on this node. Volumes
exist before: 'weftctl create' makes them, and the administrator declares a persistent volume for each. There is no
Controller service, so an orchestrator does not make or delete volumes.

The driver's name is weft.csi. A persistent volume has these fields:

  volumeHandle      the name of the weft volume
  accessModes       ReadWriteOnce, ReadWriteOncePod: the node assembles the volume to write, and another writer is
                    refused. After a crash of the node, another one needs 'weftctl assemble --take-over' once.
                    ReadOnlyMany: each node assembles it read-only. weft-csi does not prevent another node from writing
                    at the same time, and readers then see inconsistent data: use a volume for one of the two at a time.
                    Other modes are refused.
  volumeMode        Filesystem: the existing filesystem is mounted (not btrfs). weft-csi does not create one.
                    Block: the container gets the device.
  fsType            may be absent; a volume with another filesystem is refused
  mountOptions      options of mount(8). _netdev is always one of them: systemd unmounts the volume before it takes the
                    network down.
  volumeAttributes  members: URIs and devices with a space between them, as for 'weftctl assemble'. The node must reach
                    all of them. Without this attribute, the volume is assembled from its file (weftctl-save(8)) on the
                    node. The file can have several paths to a member; one of them is enough.

When the last container on the node has ended, the volume is stopped, unless it was assembled before the first one began.
The health of a volume is in its statistics: a lost member or path, or a host that may not write.

It needs root. weft-csi.service runs it on a node, and not in a pod: it uses the modules and tools of the node. The kubelet
finds it by itself. Once for a cluster, 'kubectl apply -f /usr/share/weft/csi/weft-csi.yaml' declares the driver; example.yaml
beside it has a persistent volume and a pod. Put options into /etc/default/weft-csi:

  ARGS="--node-id node17"

Examples:
  systemctl enable --now weft-csi
  weft-csi --node-id node17
  weft-csi --endpoint unix:///run/weft-csi.sock)");
}

} // namespace weft
