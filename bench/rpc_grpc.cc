// SPDX-License-Identifier: LGPL-2.1-or-later
// gRPC: a unary call (bench/rpc_echo.proto) without encryption. Blocking calls use the synchronous
// stub. The server and the outstanding calls use one completion queue and one thread each: each
// process has one processor.
#include "rpc.h"

#include "rpc_echo.grpc.pb.h"

#include <chrono>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <string>
#include <vector>

using ripc_bench::Bytes;
using ripc_bench::Echo;

namespace
{

/* ---- the server ---- */

// One request of the server: waits for one, answers it, and is deleted after that.
class Served
{
      public:
	Served(Echo::AsyncService *service, grpc::ServerCompletionQueue *queue)
	    : service(service), queue(queue), writer(&context)
	{
		service->RequestCall(&context, &request, &writer, queue, queue, this);
	}

	void proceed()
	{
		if (answered) {
			delete this;
			return;
		}
		answered = true;
		new Served(service, queue);
		writer.Finish(request, grpc::Status::OK, this);
	}

      private:
	Echo::AsyncService *service;
	grpc::ServerCompletionQueue *queue;
	grpc::ServerContext context;
	Bytes request;
	grpc::ServerAsyncResponseWriter<Bytes> writer;
	bool answered = false;
};

int serve(const char *url)
{
	grpc::ServerBuilder builder;
	Echo::AsyncService service;
	std::unique_ptr<grpc::ServerCompletionQueue> queue;
	std::unique_ptr<grpc::Server> server;
	void *tag;
	bool ok;

	builder.AddListeningPort(url, grpc::InsecureServerCredentials());
	builder.RegisterService(&service);
	queue = builder.AddCompletionQueue();
	server = builder.BuildAndStart();
	if (!server)
		return rpc_fail(url, "cannot listen");
	new Served(&service, queue.get());
	while (queue->Next(&tag, &ok))
		if (ok)
			static_cast<Served *>(tag)->proceed();
	return 0;
}

/* ---- the client ---- */

struct Call {
	grpc::ClientContext context;
	Bytes answer;
	grpc::Status status;
	std::unique_ptr<grpc::ClientAsyncResponseReader<Bytes>> reader;
};

std::unique_ptr<Echo::Stub> stub;
unsigned depth;

int connect_to(const char *url, unsigned outstanding)
{
	auto channel = grpc::CreateChannel(url, grpc::InsecureChannelCredentials());

	depth = outstanding;
	if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)))
		return rpc_fail(url, "not connected within 10 s");
	stub = Echo::NewStub(channel);
	return 0;
}

int check(const grpc::Status &status, const Bytes &answer, size_t len)
{
	if (!status.ok())
		return rpc_fail("call", status.error_message().c_str());
	if (answer.data().size() != len)
		return rpc_fail("call", "not the answer to this call");
	return 0;
}

int call(const void *bytes, size_t len)
{
	grpc::ClientContext context;
	Bytes request, answer;

	request.set_data(bytes, len);
	return check(stub->Call(&context, request, &answer), answer, len);
}

int calls(const void *bytes, size_t len, uint64_t count)
{
	grpc::CompletionQueue queue;
	uint64_t begun = 0;
	Bytes request;
	void *tag;
	bool ok;

	request.set_data(bytes, len);
	for (uint64_t ended = 0; ended < count; ended++) {
		for (; begun < count && begun - ended < depth; begun++) {
			Call *next = new Call;

			next->reader = stub->AsyncCall(&next->context, request, &queue);
			next->reader->Finish(&next->answer, &next->status, next);
		}
		if (!queue.Next(&tag, &ok))
			return rpc_fail("call", "the completion queue has ended");
		std::unique_ptr<Call> done(static_cast<Call *>(tag));
		if (check(done->status, done->answer, len))
			return -1;
	}
	return 0;
}

const char *version()
{
	static const std::string text = grpc::Version();

	return text.c_str();
}

} // namespace

extern "C" const struct rpc rpc = {"grpc", version, serve,     connect_to,
				   call,   calls,   "unix:%s", "127.0.0.1:%s"};
