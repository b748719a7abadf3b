import Foundation
import Histogram

/// The edge workloads of one engine in one round. Each starts from an empty database.
extension EngineRun {
  func executeEdges<Engine: GraphEngine>(_ type: Engine.Type) throws {
    try prepareDirectory()
    for step in settings.steps where step.workload.isOfEdges {
      if step.workload == .edgecascade, settings.shape.depth(settings.num) > Engine.depthMaximum {
        print(
          "edgecascade --shape \(settings.shape): not possible, at most \(Engine.depthMaximum) rows one after the other"
        )
        continue
      }
      try? FileManager.default.removeItem(atPath: enginePath)
      let engine = try openEngine(type, path: enginePath, settings.engineSettings)
      try report(edgeRow(engine, step.workload))
      try engine.close()
    }
  }

  private func edgeRow<Engine: GraphEngine>(_ engine: Engine, _ workload: Workload) throws -> Row {
    let source = GraphSource(settings)
    switch workload {
    case .edgeinsert:
      let count = max(settings.num / 10, 1)
      try fill(engine, count) { source.node($0, parent: nil) }
    case .edgecascade: try fill(engine, settings.num) { source.node($0, parent: settings.shape.parent(of: $0)) }
    default:
      try fill(engine, 1) { source.node($0, parent: nil) }
      try fillLeaves(engine, source)
    }
    _ = try engine.waitForCompaction()
    var left = 0
    let row = try measured(engine, workload, settings, path: enginePath) {
      UInt64(left * GraphNode.byteCount)
    } work: { row in
      let recorder = Recorder(recordsLatency: settings.latency, duration: 0)
      recorder.begin()
      switch workload {
      case .edgeinsert: try insertEdges(engine, source, recorder)
      case .edgecascade: try cascade(engine, source, recorder)
      default: try removeLeaves(engine, source, recorder)
      }
      recorder.stop()
      row.take(recorder.histogram)
      row.ops = recorder.operations
      row.seconds = Double(recorder.end - recorder.start) / 1e9
      left = try engine.countNodes()
    }
    let expected = workload == .edgecascade ? 0 : workload == .edgehub ? 1 : settings.num + max(settings.num / 10, 1)
    guard left == expected else { throw EngineFailure("\(left) nodes are there, and \(expected) should be") }
    return row
  }

  private func fill<Engine: GraphEngine>(_ engine: Engine, _ count: Int, _ node: (Int) -> GraphNode) throws {
    var number = 0
    while number < count {
      try engine.insert(min(10_000, count - number)) {
        defer { number += 1 }
        return node(number)
      }
    }
  }

  /// Inserts rows with two edges each, to random rows of a tenth as many; the latency is that of a transaction.
  private func insertEdges<Engine: GraphEngine>(_ engine: Engine, _ source: GraphSource, _ recorder: Recorder) throws {
    let base = max(settings.num / 10, 1)
    var random = SplitMix64(seed: settings.seed, stream: "edgeinsert", thread: 0)
    var number = 0
    while number < settings.num {
      let count = min(settings.rowsPerTransaction, settings.num - number)
      try engine.insert(count) {
        defer { number += 1 }
        return source.node(
          base + number, parent: Int(random.next() % UInt64(base)), second: Int(random.next() % UInt64(base)))
      }
      _ = recorder.finish(count)
    }
  }

  private func cascade<Engine: GraphEngine>(_ engine: Engine, _ source: GraphSource, _ recorder: Recorder) throws {
    let roots = (0..<min(settings.num, 100)).filter { settings.shape.parent(of: $0) == nil }
    try engine.remove(roots.map { source.id($0) })
    _ = recorder.finish(settings.num)
  }

  private func fillLeaves<Engine: GraphEngine>(_ engine: Engine, _ source: GraphSource) throws {
    let hub = source.id(0)
    var number = 0
    while number < settings.num {
      try engine.insertLeaves(min(10_000, settings.num - number)) {
        defer { number += 1 }
        return GraphLeaf(id: source.id(number + 1), hub: hub)
      }
    }
  }

  /// Removes leaves, one per transaction: at most 10,000, and one is left.
  private func removeLeaves<Engine: GraphEngine>(_ engine: Engine, _ source: GraphSource, _ recorder: Recorder) throws {
    for number in 0..<min(settings.num - 1, 10_000) {
      try engine.removeLeaf(source.id(number + 1))
      _ = recorder.finish(1)
    }
  }
}
