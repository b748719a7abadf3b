import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// A log on a file system that the test chooses: appends batches that contain their number, and reads them back in
/// the way recovery does.
final class LogHarness {
  static let directory = "/db"
  let fileSystem: any FileSystem
  let executor: SteppedExecutor
  let writer: LogWriter
  private(set) var appended: [(sequence: UInt64, position: LogPosition)] = []
  private var nextSequence: UInt64

  /// Begins a log in a directory. A log that exists there is recovered first.
  init(
    on fileSystem: any FileSystem, seed: UInt64 = 1, mapping: Bool = true, segmentSize: Int = 16 << 10,
    segmentSizeMaximum: Int? = nil,
    recovered: Recovered? = nil, firstSequence: UInt64? = nil
  ) throws {
    self.fileSystem = fileSystem
    executor = SteppedExecutor(seed: seed)
    if try fileSystem.attributes(Self.directory) == nil {
      try fileSystem.createDirectory(Self.directory)
      try fileSystem.syncDirectory("/")
    }
    let executor = executor
    let random = Mutex(SeededRandom(seed: seed &* 31 &+ 7))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let names = try fileSystem.list(Self.directory)
    let numbers = Atomic64(names.compactMap { FileName($0)?.number?.value }.max() ?? 0)
    var options = LogWriter.Options()
    options.initialSegmentSize = segmentSize
    options.maximumSegmentSize = segmentSizeMaximum ?? segmentSize * 4
    options.usesMapping = mapping
    var pool = SegmentPool(directory: Self.directory, fileSystem: fileSystem, usesMapping: mapping)
    for case .pooledLog(let number) in names.compactMap({ FileName($0) }) {
      let path = Self.directory + "/" + FileName.pooledLog(number).name
      pool.adopt(number, capacity: Int(try fileSystem.attributes(path)?.size ?? 0))
    }
    let chain = recovered?.outcome.chain ?? []
    writer = try LogWriter(
      environment: environment, executor: executor, directory: Self.directory, databaseID: 99, options: options,
      replayed: chain.map {
        .init(
          number: $0.number, lifeID: $0.lifeID, capacity: $0.capacity, file: nil, logBase: .zero, end: $0.end,
          isDurable: true)
      },
      predecessor: chain.last.map { .init(number: $0.number, lifeID: $0.lifeID, end: UInt64($0.end)) },
      lastSequence: .zero, pool: pool, allocateNumber: { FileNumber(numbers.next()) })
    nextSequence = firstSequence ?? (recovered?.sequences.last ?? 0) + 1
  }

  /// Appends a batch of one entry whose value contains its sequence number.
  @discardableResult
  func append(valueSize: Int = 20) throws -> LogPosition {
    var batch = WriteBatch()
    var value = [UInt8](repeating: UInt8(truncatingIfNeeded: nextSequence), count: max(valueSize, 8))
    for byte in 0..<8 { value[byte] = UInt8(truncatingIfNeeded: nextSequence >> UInt64(byte * 8)) }
    try batch.put(Array("key".utf8), value)
    try writer.makeRoom(payloadSize: batch.byteCount, .none, .beforeOpen)
    let position = try writer.append(sequence: SequenceNumber(nextSequence), payload: batch.payload.view, .beforeOpen)
    appended.append((nextSequence, position))
    nextSequence += 1
    return position
  }

  func sync() throws { try writer.sync(through: writer.appendedPosition, visible: { .zero }) }

  func close() throws {
    try writer.close(nextSequence: SequenceNumber(nextSequence), .beforeOpen)
  }

  /// The result of a recovery.
  struct Recovered {
    var outcome = LogRecovery.Outcome()
    var sequences: [UInt64] = []
  }

  /// Replays the log of a directory. Each batch must contain what `append` wrote for its sequence number.
  static func recover(
    _ fileSystem: any FileSystem, oldest: FileNumber, cuts: [FileNumber: LogRecovery.Cut] = [:]
  ) throws -> Recovered {
    let numbers = try fileSystem.list(directory).compactMap { name -> FileNumber? in
      if case .log(let number) = FileName(name) { return number }
      return nil
    }
    let recovery = LogRecovery(
      directory: directory, fileSystem: fileSystem, numbers: numbers, oldest: oldest, cuts: cuts)
    var recovered = Recovered()
    recovered.outcome = try recovery.replay { (record, segment) throws(EngineError) in
      var entries = BatchReader(record.payload)
      guard let entry = try entries.next(), try entries.next() == nil else {
        throw .corruption("a batch of another size than was appended")
      }
      guard entry.value.load(0, as: UInt64.self) == record.header.sequence.value else {
        throw .corruption("a batch of another sequence")
      }
      recovered.sequences.append(record.header.sequence.value)
    }
    return recovered
  }
}

/// A counter that several threads may increment.
final class Atomic64: Sendable {
  private let value: Atomic<UInt64>
  init(_ value: UInt64) { self.value = Atomic(value) }
  func next() -> UInt64 { value.add(1, ordering: .relaxed).newValue }
}
