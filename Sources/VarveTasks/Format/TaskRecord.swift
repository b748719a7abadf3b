/// A task as the database stores it: the value of its row in `live`.
///
/// ```
///  0   form (1), 1       1   state (1)         2   flags (1): 1 is being cancelled, 2 mayHaveBegun,
///                                               4 isSuspect
///  3   id (8)            11  attempt (4)       15  failures (4)     19  crashes (4)
///  23  snoozes (4)       27  epoch (4)         31  enqueued (8)
///  39  stamp (8): in a row that is not queued; otherwise the key has it
///  47  length of the position (2), position
///      kind (sized), version of the payload (2), payload (sized)
///      maximum attempts (4), 0: no limit       timeout in ms (8), 0: none
///      delay in ms (8): of a task that waits for a duration instead of a time of day
///      retry: tag (1), numbers                 retention: tag (1), ms (8)
///      number of tags (2), each sized          number of signals (2), each sized
///      number of errors (2), each sized        number of the last checkpoint (4)
///      extras: see TaskExtras
/// ```
/// Sized: a length of 4 bytes, and the bytes. Numbers are big-endian. On disk: never change.
struct TaskRecord: Hashable, Sendable {
  var id: TaskID
  var progress: TaskProgress
  var position: TaskPosition
  /// The time at which the task was enqueued, in milliseconds since 1970.
  var enqueued: Int64
  var kind: String
  var version: UInt16
  var payload: [UInt8]
  var maxAttempts: UInt32
  var timeout: Int64
  var delay: Int64 = 0
  var retry: Retry?
  var retention: Retention
  var tags: [String]
  var signals: [String] = []
  /// The texts of the last errors, the oldest first.
  var errors: [String] = []
  /// The number of the last checkpoint, or 0 if the task has not made one.
  var step: UInt32 = 0
  /// Whether a process has died while the task ran, and the task has not ended an attempt since.
  var isSuspect = false
  /// Whether a process has died that had made a claim of the task ahead, so that the task may have just begun. The next
  /// claim is not made ahead, so it shows whether the task is what kills the process.
  var mayHaveBegun = false
  private var extrasBox: TaskExtrasBox?

  /// The properties that most tasks do not have.
  var extras: TaskExtras {
    get { extrasBox?.value ?? TaskExtras() }
    set { extrasBox = newValue.isEmpty ? nil : TaskExtrasBox(newValue) }
  }

  /// Whether the task has a unique key or belongs to a group, so that its end affects other tasks.
  var concernsOthers: Bool { extrasBox != nil && (extras.uniqueKey != nil || extras.group != nil || extras.isGroup) }

  /// Returns the rest of the task's delay in milliseconds, or `nil` if it waits for a date.
  ///
  /// The rest is never more than the whole delay, even if the time of day was set back.
  func remainingDelay(_ now: Int64) -> Int64? { delay > 0 ? max(0, min(position.due - now, delay)) : nil }

  static let stampOffset = 39
  private static let form: UInt8 = 1
  private static let enqueuedOffset = 31

  /// Returns the time at which the task was enqueued, read from the bytes of its row.
  static func enqueued(in bytes: [UInt8]) -> Int64 {
    var reader = ByteReader(bytes, at: enqueuedOffset)
    return (try? reader.time()) ?? 0
  }

  // MARK: - Bytes

  var bytes: [UInt8] { bytes(position.bytes) }

  /// Returns the bytes of the record, given the bytes of its position.
  func bytes(_ positionBytes: [UInt8]) -> [UInt8] {
    var bytes = [UInt8](atMost: sizeMaximum(positionBytes)) { bytes in
      bytes.put(Self.form)
      bytes.put(progress.state.rawValue)
      bytes.put((progress.isCancelling ? UInt8(1) : 0) | (mayHaveBegun ? 2 : 0) | (isSuspect ? 4 : 0))
      bytes.put(id.rawValue)
      bytes.put(progress.attempt)
      bytes.put(progress.failures)
      bytes.put(progress.crashes)
      bytes.put(progress.snoozes)
      bytes.put(progress.epoch)
      bytes.put(time: enqueued)
      bytes.put(position.stamp)
      bytes.put(UInt16(positionBytes.count))
      bytes.put(positionBytes)
      bytes.put(sized: kind)
      bytes.put(version)
      bytes.put(sized: payload)
      bytes.put(maxAttempts)
      bytes.put(time: timeout)
      bytes.put(time: delay)
      Self.put(retry, &bytes)
      switch retention {
      case .deleteOnSuccess:
        bytes.put(UInt8(0))
        bytes.put(time: 0)
      case .keep(let time):
        bytes.put(UInt8(1))
        bytes.put(time: time.milliseconds)
      case .keepCount(let count):
        bytes.put(UInt8(2))
        bytes.put(time: Int64(count))
      }
      Self.put(tags, &bytes)
      Self.put(signals, &bytes)
      Self.put(errors, &bytes)
      bytes.put(step)
      if extrasBox == nil { bytes.put(UInt8(0)) }
    }
    if let extrasBox { extrasBox.value.append(to: &bytes) }
    return bytes
  }

  /// Returns an upper bound of the size in bytes without the extras.
  private func sizeMaximum(_ positionBytes: [UInt8]) -> Int {
    var size = 144 + positionBytes.count + kind.utf8.count + payload.count
    if case .steps(let delays) = retry { size += 8 * delays.count }
    for texts in [tags, signals, errors] where !texts.isEmpty {
      size += texts.reduce(0) { $0 + 4 + $1.utf8.count }
    }
    return size
  }

  private static func put(_ texts: [String], _ bytes: inout ByteFiller) {
    bytes.put(UInt16(texts.count))
    for text in texts { bytes.put(sized: text) }
  }

  private static func put(_ retry: Retry?, _ bytes: inout ByteFiller) {
    switch retry {
    case nil: bytes.put(UInt8(0))
    case .never: bytes.put(UInt8(1))
    case .fixed(let delay):
      bytes.put(UInt8(2))
      bytes.put(time: delay.milliseconds)
    case .steps(let delays):
      bytes.put(UInt8(3))
      bytes.put(UInt16(min(delays.count, Int(UInt16.max))))
      for delay in delays.prefix(Int(UInt16.max)) { bytes.put(time: delay.milliseconds) }
    case .exponential(let base, let factor, let cap, let jitter):
      bytes.put(UInt8(4))
      bytes.put(time: base.milliseconds)
      bytes.put(factor.bitPattern)
      bytes.put(time: cap.milliseconds)
      bytes.put(jitter.bitPattern)
    }
  }

  init(
    id: TaskID, progress: TaskProgress, position: TaskPosition, enqueued: Int64, kind: String, version: UInt16,
    payload: [UInt8],
    _ options: TaskOptions
  ) {
    self.id = id
    self.progress = progress
    self.position = position
    self.enqueued = enqueued
    self.kind = kind
    self.version = version
    self.payload = payload
    maxAttempts = UInt32(clamping: options.maxAttempts ?? 0)
    timeout = options.timeout.map { max(1, $0.milliseconds) } ?? 0
    retry = options.retry
    retention = options.retention
    tags = options.tags
  }

  /// Reads a record from the value of a row. `stamp` is the stamp in the row's key if the task is queued.
  init(_ bytes: [UInt8], stamp: UInt64? = nil) throws(DamagedTask) {
    var reader = ByteReader(bytes)
    let form = try reader.byte()
    if form != Self.form { throw DamagedTask(what: "it has form \(form), expected \(Self.form)", bytes: bytes) }
    let number = try reader.byte()
    guard let state = TaskState(rawValue: number) else {
      throw DamagedTask(what: "\(number) is not a state", bytes: bytes)
    }
    progress = TaskProgress(state)
    let marks = try reader.byte()
    progress.isCancelling = marks & 1 != 0
    mayHaveBegun = marks & 2 != 0
    isSuspect = marks & 4 != 0
    id = TaskID(rawValue: try reader.number())
    progress.attempt = try reader.number()
    progress.failures = try reader.number()
    progress.crashes = try reader.number()
    progress.snoozes = try reader.number()
    progress.epoch = try reader.number()
    enqueued = try reader.time()
    let ownStamp: UInt64 = try reader.number()
    let positionCount = Int(try reader.number(UInt16.self))
    guard positionCount <= reader.remaining else {
      throw DamagedTask(what: "it ends within its position", bytes: bytes)
    }
    position = try TaskPosition(Array(bytes[reader.offset..<(reader.offset + positionCount)]))
    position.stamp = stamp ?? ownStamp
    reader = ByteReader(bytes, at: reader.offset + positionCount)
    kind = try reader.text()
    version = try reader.number()
    payload = try reader.sized()
    maxAttempts = try reader.number()
    timeout = try reader.time()
    delay = try reader.time()
    retry = try Self.retry(&reader, bytes)
    let (retentionTag, kept) = (try reader.byte(), try reader.time())
    retention =
      switch retentionTag {
      case 0: .deleteOnSuccess
      case 2: .keepCount(Int(kept))
      default: .keep(.milliseconds(kept))
      }
    tags = try Self.texts(&reader)
    signals = try Self.texts(&reader)
    errors = try Self.texts(&reader)
    step = try reader.number()
    let flags = try reader.byte()
    if flags != 0 { extras = try TaskExtras(flags, &reader) }
  }

  private static func texts(_ reader: inout ByteReader) throws(DamagedTask) -> [String] {
    var texts: [String] = []
    for _ in 0..<(try reader.number(UInt16.self)) { texts.append(try reader.text()) }
    return texts
  }

  private static func retry(_ reader: inout ByteReader, _ bytes: [UInt8]) throws(DamagedTask) -> Retry? {
    let tag = try reader.byte()
    switch tag {
    case 0: return nil
    case 1: return .never
    case 2: return .fixed(.milliseconds(try reader.time()))
    case 3:
      var delays: [Duration] = []
      for _ in 0..<(try reader.number(UInt16.self)) { delays.append(.milliseconds(try reader.time())) }
      return .steps(delays)
    case 4:
      let base = try reader.time()
      let factor = Double(bitPattern: try reader.number())
      let cap = try reader.time()
      let jitter = Double(bitPattern: try reader.number())
      return .exponential(base: .milliseconds(base), factor: factor, cap: .milliseconds(cap), jitter: jitter)
    default: throw DamagedTask(what: "\(tag) is not a kind of retry", bytes: bytes)
    }
  }
}
