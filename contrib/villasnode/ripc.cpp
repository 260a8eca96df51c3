/* Node-type ripc: samples as messages between services of libripc.
 *
 * One sample travels in each short message, in the format of ripc-gateway(1), all little-endian:
 * sequence (u64), origin time in nanoseconds since 1970 (i64), values (binary64). An integer,
 * boolean or real part is sent as a binary64.
 *
 * SPDX-License-Identifier: Apache-2.0
 */

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <ripc.h>

#include <villas/exceptions.hpp>
#include <villas/node.hpp>
#include <villas/sample.hpp>
#include <villas/timing.hpp>

using namespace villas;
using namespace villas::node;

class RipcNode : public Node {

protected:
  static constexpr unsigned VALUES_MAX = 64;
  static constexpr size_t HEADER_LEN = 16;
  static constexpr int START_TIMEOUT_MS = 2000;
  static constexpr int64_t NS_PER_S = 1000000000;

  // A service by name or id, or a group.
  struct End {
    std::string name;
    uint64_t id = 0;
    uint64_t group = 0;

    bool isSet() const { return !name.empty() || id || group; }
  };

  std::string options; // of ripc_open(), "key=value ..."
  End source, destination;

  struct ripc *context = nullptr;
  struct ripc_service *service = nullptr;
  uint64_t to = 0;

  static uint64_t load(const uint8_t *p) {
    uint64_t v;
    std::memcpy(&v, p, sizeof(v));
    return le64toh(v);
  }

  static void store(uint8_t *p, uint64_t v) {
    v = htole64(v);
    std::memcpy(p, &v, sizeof(v));
  }

  static void parseEnd(json_t *json, End &end, const char *what) {
    json_t *jsonService = nullptr;
    json_int_t group = 0;
    json_error_t err;

    if (json_unpack_ex(json, &err, 0, "{ s?: o, s?: I }", "service",
                       &jsonService, "group", &group))
      throw ConfigError(json, err, "node-config-node-ripc");
    if (json_is_string(jsonService))
      end.name = json_string_value(jsonService);
    else if (json_is_integer(jsonService))
      end.id = json_integer_value(jsonService);
    else if (jsonService)
      throw ConfigError(jsonService, "node-config-node-ripc",
                        "{}.service is a name or a number", what);
    end.group = group;
  }

  // Errors of libripc name the service, the peer, the transport and the cause.
  [[noreturn]] void fail(const char *what) {
    throw RuntimeError("{}: {}", what, ripc_error_detail());
  }

  bool decode(const struct ripc_message *m, struct Sample *smp) {
    const uint8_t *p = static_cast<const uint8_t *>(m->items[0].iov_base);
    size_t len = m->items[0].iov_len;

    if (m->nitems != 1 || len < HEADER_LEN || len % 8 ||
        len > HEADER_LEN + 8 * VALUES_MAX)
      return false;

    int64_t ns = load(p + 8);
    smp->sequence = load(p);
    smp->ts.origin.tv_sec = ns / NS_PER_S;
    smp->ts.origin.tv_nsec = ns % NS_PER_S;
    smp->ts.received = time_now();
    smp->signals = getInputSignals(false);
    smp->length = std::min<size_t>({(len - HEADER_LEN) / 8, smp->capacity,
                                    smp->signals->size()});
    for (unsigned i = 0; i < smp->length; i++) {
      uint64_t bits = load(p + HEADER_LEN + 8 * i);
      double value;
      std::memcpy(&value, &bits, sizeof(value));
      smp->data[i] =
          SignalData(value).cast(SignalType::FLOAT, smp->signals->getByIndex(i)->type);
    }
    smp->flags = (int)SampleFlags::HAS_TS | (int)SampleFlags::HAS_SEQUENCE |
                 (int)SampleFlags::HAS_DATA;
    return ns >= 0;
  }

  size_t encode(const struct Sample *smp, uint8_t *p) {
    unsigned n = std::min(smp->length, VALUES_MAX);

    store(p, smp->sequence);
    store(p + 8, smp->ts.origin.tv_sec * NS_PER_S + smp->ts.origin.tv_nsec);
    for (unsigned i = 0; i < n; i++) {
      double value =
          smp->data[i].cast(sample_format(smp, i), SignalType::FLOAT).f;
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      store(p + HEADER_LEN + 8 * i, bits);
    }
    return HEADER_LEN + 8 * n;
  }

  // Waits for the first message, and takes up to cnt.
  int _read(struct Sample *smps[], unsigned cnt) override {
    unsigned n = 0;

    while (n < cnt) {
      struct ripc_message *m;
      int rc = ripc_receive(service, &m, n ? 0 : 100);

      if (rc == -EAGAIN || rc == -ETIMEDOUT)
        break;
      if (rc)
        return -1;
      if (decode(m, smps[n]))
        n++;
      else
        logger->warn("A message of {} bytes is no sample", m->items[0].iov_len);
      ripc_message_free(m);
    }
    return n;
  }

  int _write(struct Sample *smps[], unsigned cnt) override {
    uint8_t bytes[HEADER_LEN + 8 * VALUES_MAX];

    for (unsigned i = 0; i < cnt; i++) {
      struct iovec item = {bytes, encode(smps[i], bytes)};
      int rc = destination.group
                   ? ripc_group_send(service, destination.group, &item, 1,
                                     nullptr, 0)
                   : ripc_send_short(service, to, &item, 1, nullptr, 0);

      if (rc) {
        logger->debug("Sample {} not sent: {}", smps[i]->sequence,
                      ripc_error_detail());
        return i ? (int)i : (rc == -EAGAIN || rc == -EHOSTUNREACH ? 0 : -1);
      }
    }
    return cnt;
  }

public:
  RipcNode(const uuid_t &id = {}, const std::string &name = "")
      : Node(id, name) {}

  ~RipcNode() override { close(); }

  int parse(json_t *json) override {
    const char *opts = nullptr;
    json_t *jsonIn = nullptr, *jsonOut = nullptr;
    json_error_t err;

    if (json_unpack_ex(json, &err, 0, "{ s?: s, s?: o, s?: o }", "options",
                       &opts, "in", &jsonIn, "out", &jsonOut))
      throw ConfigError(json, err, "node-config-node-ripc");
    options = opts ? opts : "";
    if (jsonIn)
      parseEnd(jsonIn, source, "in");
    if (jsonOut)
      parseEnd(jsonOut, destination, "out");
    return 0;
  }

  int check() override {
    if (!source.isSet() && !destination.isSet())
      throw RuntimeError("Neither in nor out has a service or a group");
    return Node::check();
  }

  const std::string &getDetails() override {
    auto text = [](const End &e) {
      return !e.name.empty() ? e.name
             : e.group       ? fmt::format("group {}", e.group)
                             : fmt::format("{}", e.id);
    };
    details = fmt::format("in.service={}, out.service={}", text(source),
                          text(destination));
    return details;
  }

  int start() override {
    struct ripc_route route = {};

    if (ripc_open(&context, options.empty() ? nullptr : options.c_str()))
      fail("Cannot open libripc");
    if (source.name.empty()
            ? ripc_service_register(context,
                                    source.id ? source.id : RIPC_ANY_ID, 0,
                                    &service)
            : ripc_register_name(context, source.name.c_str(), 0, &service))
      fail("Cannot register the service");
    if (source.group &&
        ripc_group_join(service, source.group, START_TIMEOUT_MS))
      fail("Cannot join the group");
    if (!destination.isSet() || destination.group)
      return 0;
    to = destination.name.empty() ? destination.id
                                  : ripc_id(destination.name.c_str());
    if (!to)
      fail("Not a name of a service");
    route.size = sizeof(route);
    if (ripc_route_lookup(context, to, &route, START_TIMEOUT_MS))
      logger->warn("Samples are dropped until the service is there: {}",
                   ripc_error_detail());
    return 0;
  }

  void close() {
    if (context)
      ripc_close(context);
    context = nullptr;
    service = nullptr;
  }

  int stop() override {
    close();
    return 0;
  }

  std::vector<int> getPollFDs() override { return {ripc_service_fd(service)}; }
};

static char n[] = "ripc";
static char d[] = "Services of libripc over RDMA, shared memory or TCP";
static NodePlugin<RipcNode, n, d,
                  (int)NodeFactory::Flags::SUPPORTS_READ |
                      (int)NodeFactory::Flags::SUPPORTS_WRITE |
                      (int)NodeFactory::Flags::SUPPORTS_POLL>
    p;
