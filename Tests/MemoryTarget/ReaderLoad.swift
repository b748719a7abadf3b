import EngineTestSupport
import Synchronization
import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Threads that read without a pause while one thread writes.
///
/// A value begins with the number of its key, so that a wrong result is detected.
final class ReaderLoad: Sendable {
  /// The operation that the readers repeat.
  enum Kind: String {
    case get, multiGet, withValue, cursor
  }

  private let engine: Engine
  private let kind: Kind
  private let readsEnd = Atomic<Bool>(false)
  private let samplesEnd = Atomic<Bool>(false)
  private let usedHighest = Atomic<Int>(0)
  private let reads = Atomic<Int>(0)
  private let wrong = Atomic<Int>(0)

  private static let keyCount = 20_000
  private static let valueSize = 1_000

  /// The greatest number of bytes that the engine counted.
  var usedMaximum: Int { usedHighest.load(ordering: .relaxed) }
  var readCount: Int { reads.load(ordering: .relaxed) }
  var wrongCount: Int { wrong.load(ordering: .relaxed) }

  init(_ path: String, budget: Int, kind: Kind) throws {
    var options = EngineOptions()
    options.memoryBudget = budget
    var environment = EngineEnvironment.system
    environment.makeExecutor = { PatientExecutor(threads: $0) }
    engine = try Engine.open(at: path, options: options, environment: environment)
    self.kind = kind
    for number in 0..<Self.keyCount { try engine.put(Self.key(number), Self.value(number, 0)) }
  }

  /// Writes `bytes` bytes while `threadCount` threads read. Returns once all obsolete files are removed, while the
  /// threads continue to read.
  func run(threadCount: Int, bytes: Int) throws {
    var threads: [Thread] = []
    for number in 0..<threadCount { threads.append(Thread { [self] in read(number) }) }
    let sampler = Thread { [self] in sample() }
    defer {
      readsEnd.store(true, ordering: .relaxed)
      for thread in threads { thread.join() }
      samplesEnd.store(true, ordering: .relaxed)
      sampler.join()
    }
    for number in 0..<bytes / Self.valueSize {
      try engine.put(Self.key(number &* 7_919 % Self.keyCount), Self.value(number &* 7_919 % Self.keyCount, number))
    }
    try engine.waitForCompaction()
    while engine.statistics.readers.keptFileCount > 0 { usleep(5_000) }
  }

  private func sample() {
    while !samplesEnd.load(ordering: .relaxed) {
      usedHighest.max(engine.statistics.memory.used, ordering: .relaxed)
      usleep(1_000)
    }
  }

  private func read(_ number: Int) {
    var random = SeededRandom(seed: UInt64(number))
    // Each thread reads, also if the writer has left it no time.
    repeat {
      do { try readOnce(&random) } catch { wrong.add(1, ordering: .relaxed) }
      reads.add(1, ordering: .relaxed)
    } while !readsEnd.load(ordering: .relaxed)
  }

  private func readOnce(_ random: inout SeededRandom) throws {
    let number = random.below(Self.keyCount)
    switch kind {
    case .get: check(try engine.get(Self.key(number)), number)
    case .multiGet:
      let numbers = (0..<100).map { _ in random.below(Self.keyCount) }
      let values = try engine.multiGet(numbers.map { Self.key($0) })
      for (value, number) in zip(values, numbers) { check(value, number) }
    case .withValue:
      let key = Self.key(number)
      let found: Void? = try unsafe engine.withValue(forKey: key.span.bytes) { value in
        usleep(1_000)
        let bytes = (0..<8).map { unsafe value.unsafeLoad(fromByteOffset: $0, as: UInt8.self) }
        check(bytes, number)
      }
      if found == nil { wrong.add(1, ordering: .relaxed) }
    case .cursor:
      var cursor = try engine.cursor()
      try cursor.seek(Self.key(number))
      for step in 0..<50 where cursor.isValid {
        check(cursor.valueBytes, number + step)
        try cursor.next()
      }
    }
  }

  private func check(_ value: [UInt8]?, _ number: Int) {
    guard let value, value.starts(with: Self.key(number)) else {
      wrong.add(1, ordering: .relaxed)
      return
    }
  }

  private static func key(_ number: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) }
  }

  private static func value(_ number: Int, _ round: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: valueSize)
    bytes.replaceSubrange(0..<8, with: key(number))
    return bytes
  }
}

/// A thread of this program; `EngineThread` is internal to the engine.
private final class Thread {
  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  #if canImport(Darwin)
    private var thread: pthread_t?
  #else
    private var thread = pthread_t()
  #endif

  init(_ body: @escaping @Sendable () -> Void) {
    let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
    // Safety: the thread consumes the one reference that was retained for it.
    let status = unsafe pthread_create(
      &thread, nil,
      { context in
        #if canImport(Darwin)
          unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
        #else
          if let context = unsafe context { unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
        #endif
        return nil
      }, context)
    guard status == 0 else { exit(4) }
  }

  func join() {
    #if canImport(Darwin)
      if let thread = unsafe thread { unsafe _ = pthread_join(thread, nil) }
    #else
      _ = pthread_join(thread, nil)
    #endif
  }
}
