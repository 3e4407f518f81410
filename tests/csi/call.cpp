// SPDX-License-Identifier: GPL-2.0-only
/// Calls a method of weft-csi, as an orchestrator does.
///
/// usage: weft-csi-call SOCKET SERVICE.METHOD [REQUEST]
///
/// REQUEST is JSON. Prints the response as JSON on one line. The exit status is gRPC's status code, and 64
/// without a call.
#include <csi.pb.h>
#include <registration.pb.h>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>

namespace
{

using google::protobuf::Message;

constexpr int no_call = 64;
constexpr auto deadline = std::chrono::seconds(170);

std::unique_ptr<Message> message_of(const google::protobuf::Descriptor* type)
{
    return std::unique_ptr<Message>(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

grpc::Status call(const std::string& socket, const std::string& path, const Message& request,
                  Message& response)
{
    grpc::GenericStub stub(grpc::CreateChannel("unix://" + socket, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    grpc::CompletionQueue queue;
    const grpc::Slice sent(request.SerializeAsString());
    const auto reader = stub.PrepareUnaryCall(&context, path, grpc::ByteBuffer(&sent, 1), &queue);
    reader->StartCall();
    grpc::ByteBuffer received;
    grpc::Status status;
    reader->Finish(&received, &status, nullptr);
    void* tag = nullptr;
    bool good = false;
    queue.Next(&tag, &good);
    grpc::Slice bytes;
    if (status.ok() && (!received.DumpToSingleSlice(&bytes).ok() ||
                        !response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))))
        return {grpc::StatusCode::INTERNAL, "the response is not what CSI says"};
    return status;
}

} // namespace

int main(int argc, char** argv)
{
    // So that the linker takes both files.
    csi::v1::ProbeRequest::descriptor();
    pluginregistration::InfoRequest::descriptor();
    const std::string name = argc > 2 ? argv[2] : "";
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    const auto* method = pool->FindMethodByName("csi.v1." + name);
    if (!method)
        method = pool->FindMethodByName("pluginregistration." + name);
    if (!method) {
        std::cerr << "usage: weft-csi-call SOCKET SERVICE.METHOD [REQUEST]\n";
        return no_call;
    }
    const auto request = message_of(method->input_type()), response = message_of(method->output_type());
    const auto parsed = google::protobuf::util::JsonStringToMessage(argc > 3 ? argv[3] : "{}", request.get());
    if (!parsed.ok()) {
        std::cerr << "the request: " << parsed.ToString() << '\n';
        return no_call;
    }
    const auto path = '/' + method->service()->full_name() + '/' + method->name();
    const auto status = call(argv[1], path, *request, *response);
    if (!status.ok()) {
        std::cerr << status.error_message() << '\n';
        return status.error_code();
    }
    google::protobuf::util::JsonPrintOptions options;
    options.always_print_primitive_fields = true;
    options.preserve_proto_field_names = true;
    std::string text;
    if (!google::protobuf::util::MessageToJsonString(*response, &text, options).ok())
        return no_call;
    std::cout << text << '\n';
    return 0;
}
