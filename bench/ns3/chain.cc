// The simulator's chain in ns-3: equal links in a row, one bulk flow, relays after some of the hops.
//
// Prints one line of JSON: goodput of each seed in Mbit/s after the warm-up, and the seconds that all took.
//   chain --hops=6 --rate=32Mbps --delay=10666.7us --queue=512kB --loss=0.001 --relays=2,4 --control=TcpCubic
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdio>
#include <sstream>
#include <vector>

using namespace ns3;

namespace
{

const uint16_t PORT = 5000;
const uint32_t PLENTY = 64 << 20;

// Takes a connection and carries its bytes on. It reads whatever there is and holds what the next connection has no room
// for: ns-3 sends no window update when an application reads, so a window that has closed would stay closed.
class Relay : public Application
{
  public:
    Relay(Address onward)
        : m_onward(onward)
    {
    }

  private:
    void StartApplication() override
    {
        m_listener = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Relay::Accepted, this));
    }

    void Accepted(Ptr<Socket> near, const Address&)
    {
        near->SetRecvCallback(MakeCallback(&Relay::Read, this));
        m_far = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
        m_far->Bind();
        m_far->SetConnectCallback(MakeCallback(&Relay::Connected, this), MakeNullCallback<void, Ptr<Socket>>());
        m_far->SetSendCallback(MakeCallback(&Relay::Room, this));
        m_far->Connect(m_onward);
    }

    void Connected(Ptr<Socket>)
    {
        m_connected = true;
        Write();
    }

    void Read(Ptr<Socket> near)
    {
        while (Ptr<Packet> packet = near->Recv())
        {
            if (packet->GetSize() == 0)
            {
                break;
            }
            m_held += packet->GetSize();
        }
        Write();
    }

    void Room(Ptr<Socket>, uint32_t)
    {
        Write();
    }

    void Write()
    {
        while (m_connected && m_held > 0)
        {
            uint32_t size = std::min<uint64_t>(m_held, m_far->GetTxAvailable());
            if (size == 0 || m_far->Send(Create<Packet>(size)) < 0)
            {
                break;
            }
            m_held -= size;
        }
    }

    Address m_onward;
    Ptr<Socket> m_listener;
    Ptr<Socket> m_far;
    bool m_connected{false};
    uint64_t m_held{0};
};

struct Settings
{
    uint32_t hops{8};
    std::string rate{"10Mbps"};
    std::string delay{"10ms"};
    std::string queue{"50p"};
    double loss{0};
    std::string relays;
    double duration{100};
    double warmUp{0};
    uint32_t mtu{1600};
};

double
Goodput(const Settings& settings, uint32_t seed)
{
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(seed);
    NodeContainer nodes;
    nodes.Create(settings.hops + 1);
    InternetStackHelper().Install(nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(settings.rate));
    link.SetDeviceAttribute("Mtu", UintegerValue(settings.mtu));
    link.SetChannelAttribute("Delay", StringValue(settings.delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(settings.queue)));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    std::vector<Ipv4Address> right(settings.hops + 1); // of each node, the address toward the source
    for (uint32_t hop = 0; hop < settings.hops; ++hop)
    {
        NetDeviceContainer devices = link.Install(nodes.Get(hop), nodes.Get(hop + 1));
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        // A queue of the device alone: assigning an address has put fq_codel before it.
        TrafficControlHelper().Uninstall(devices);
        right[hop + 1] = interfaces.GetAddress(1);
        addresses.NewNetwork();
        if (hop == 0 && settings.loss > 0)
        {
            Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
            errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            errors->SetRate(settings.loss);
            errors->AssignStreams(seed * 10);
            devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<uint32_t> stops;
    std::stringstream list(settings.relays);
    for (std::string number; std::getline(list, number, ',');)
    {
        stops.push_back(std::stoul(number));
    }
    stops.push_back(settings.hops);
    for (std::size_t i = 0; i + 1 < stops.size(); ++i)
    {
        Ptr<Relay> relay = CreateObject<Relay>(InetSocketAddress(right[stops[i + 1]], PORT));
        nodes.Get(stops[i])->AddApplication(relay);
        relay->SetStartTime(Seconds(0));
    }
    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    Ptr<PacketSink> sink = sinks.Install(nodes.Get(settings.hops)).Get(0)->GetObject<PacketSink>();
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(right[stops.front()], PORT));
    bulk.Install(nodes.Get(0)).Start(Seconds(0));

    Simulator::Stop(Seconds(settings.warmUp));
    Simulator::Run();
    uint64_t before = sink->GetTotalRx();
    Simulator::Stop(Seconds(settings.duration - settings.warmUp));
    Simulator::Run();
    double megabits = (sink->GetTotalRx() - before) * 8e-6;
    Simulator::Destroy();
    return megabits / (settings.duration - settings.warmUp);
}

} // namespace

int
main(int argc, char* argv[])
{
    Settings settings;
    std::string control = "TcpNewReno";
    std::string recovery = "TcpPrrRecovery";
    uint32_t segment = 1460;
    uint32_t runs = 1;
    uint32_t initialWindow = 10;
    bool sack = true;
    bool fastConvergence = true;
    bool hystart = true;
    CommandLine options;
    options.AddValue("hops", "links in the row", settings.hops);
    options.AddValue("rate", "of each", settings.rate);
    options.AddValue("delay", "of each, one way", settings.delay);
    options.AddValue("queue", "of each, as 50p or 512kB", settings.queue);
    options.AddValue("loss", "of data on the first", settings.loss);
    options.AddValue("relays", "after which hops, as 2,4", settings.relays);
    options.AddValue("duration", "in seconds", settings.duration);
    options.AddValue("warmUp", "seconds that do not count", settings.warmUp);
    options.AddValue("mtu", "of each link", settings.mtu);
    options.AddValue("control", "TcpNewReno, TcpCubic, ...", control);
    options.AddValue("recovery", "TcpPrrRecovery or TcpClassicRecovery", recovery);
    options.AddValue("segment", "payload of a full segment, without options", segment);
    options.AddValue("runs", "seeds, from 1 on", runs);
    options.AddValue("initialWindow", "in segments", initialWindow);
    options.AddValue("sack", "selective acknowledgments", sack);
    options.AddValue("fastConvergence", "of TcpCubic", fastConvergence);
    options.AddValue("hystart", "of TcpCubic", hystart);
    options.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + control)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initialWindow));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(PLENTY));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(PLENTY));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sack));
    Config::SetDefault("ns3::TcpCubic::FastConvergence", BooleanValue(fastConvergence));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(hystart));

    auto began = std::chrono::steady_clock::now();
    std::printf("{\"ns3\": \"%s\", \"relays\": \"%s\", \"goodput_mbit_s\": [", control.c_str(), settings.relays.c_str());
    for (uint32_t seed = 1; seed <= runs; ++seed)
    {
        std::printf("%s%.3f", seed == 1 ? "" : ", ", Goodput(settings, seed));
        std::fflush(stdout);
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("], \"seconds\": %.2f}\n", took.count());
    return 0;
}
