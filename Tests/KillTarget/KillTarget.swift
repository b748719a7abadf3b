import VarveEngine

@main struct KillTarget { static func main() { print(EngineOptions().memtableSize) } }
