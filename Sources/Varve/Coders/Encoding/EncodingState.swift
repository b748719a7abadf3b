/// The state of encoding a value: the bytes, and a frame for each value that has begun and not ended.
///
/// # How a value is written
/// A value is written in one pass, into one buffer. Children are written inside their parent's frame, so that only the
/// top frame may write: a write to a lower one ends those above it. The header of a record, an array or a map is not
/// known before its end, so space of the most likely size is reserved for it.
///
/// A record expects the fields of the shape of the last record that began with the same key. As long as the fields are
/// encoded in that order, a field costs one comparison. Otherwise the record continues as a `LearnedShape`, which
/// results in a shape of its own.
///
/// # Exceptions
/// A container that is written to after its parent has continued, and fields in changing orders, are only detected
/// while encoding. The value is then encoded again from its beginning, in a mode that supports them.
///
/// # Invariants
/// 1. Frames are a path from the root to the value that is being written; each begins after its parent's body.
/// 2. `output` ends at the position where the top frame continues.
/// 3. No method calls the user's code.
struct EncodingState: ~Copyable {
  /// A nested container with its own buffer, and the offset at which its bytes are inserted.
  struct Attachment {
    let slot: Int
    let offset: Int
    let core: EncodingCore
  }

  var output = CodingBuffer()
  var frames = FrameStack<EncodingFrame>()
  var tables: KeyTables
  let shapes: ShapeLookup
  /// The shapes of records whose shapes are being learned, by slot.
  var learnedShapes: [Int: LearnedShape] = [:]
  /// The offsets of the entries of the open maps.
  var entryStarts: [Int] = []
  var attachments: [Attachment] = []
  private(set) var modes: EncodingModes = []
  let outcome: EncodingOutcome
  /// The shape of the top-level value, or 0 if it has none.
  var rootShape: UInt32 = 0
  /// Whether the state belongs to a nested container with its own buffer, in which case the following properties
  /// describe its parents.
  let isDetached: Bool
  let depthAbove: Int
  let pathAbove: [any CodingKey]
  private var lastID: UInt32 = 0

  init(
    _ shapes: ShapeCache, _ outcome: EncodingOutcome, isDetached: Bool, depthAbove: Int, pathAbove: [any CodingKey]
  ) {
    self.outcome = outcome
    self.shapes = ShapeLookup(shapes)
    tables = KeyTables(shapes)
    self.isDetached = isDetached
    self.depthAbove = depthAbove
    self.pathAbove = pathAbove
  }

  /// Prepares for a value, whatever the outcome of the previous one. Containers of the previous value throw from then
  /// on.
  mutating func reset(_ modes: EncodingModes) {
    output.removeAll()
    frames.reset()
    if !learnedShapes.isEmpty { learnedShapes = [:] }
    if !entryStarts.isEmpty { entryStarts = [] }
    discardAttachments(from: 0)
    self.modes = modes
    rootShape = 0
  }

  // MARK: - Frames

  /// Begins a value at the end of the buffer.
  @inline(__always)
  mutating func push() throws -> (slot: Int, id: UInt32) {
    let slot = frames.count
    let depth = slot &+ depthAbove &+ 1
    guard CoderLimits.hasRoom(atDepth: depth) else { throw error(slot, CoderLimits.reason(atDepth: depth)) }
    lastID &+= 1
    frames.append(EncodingFrame(id: lastID, start: output.count))
    return (slot, lastID)
  }

  @inline(__always)
  func isLive(_ slot: Int, _ id: UInt32) -> Bool { slot < frames.count && frames[slot].id == id }

  /// Makes a frame the top one.
  @inline(__always)
  mutating func enter(_ slot: Int, _ id: UInt32) throws {
    guard isLive(slot, id) else { throw late() }
    if frames.count > slot &+ 1 { try close(above: slot) }
  }

  /// Returns the error of a container whose value has ended, and requests that the value is encoded again if possible.
  private mutating func late() -> any Error {
    if !modes.contains(.detached) && !isDetached && frames.count > 0 { return outcome.again(.detached) }
    let context = EncodingError.Context(
      codingPath: [], debugDescription: "a container was used after the value was complete that it belongs to")
    let error = EncodingError.invalidValue("a container", context)
    outcome.fail(error)
    return error
  }

  /// Ends the frames above one, which are still open because nested containers have no end of their own.
  mutating func close(above slot: Int) throws {
    while frames.count > slot + 1 { try close(frames.count - 1) }
  }

  /// Ends a value.
  @inline(__always)
  mutating func close(_ slot: Int) throws {
    if frames.count > slot &+ 1 { try close(above: slot) }
    if !attachments.isEmpty { try attach(slot) }
    do {
      switch frames[slot].kind {
      case .record: try finishRecord(slot)
      case .value: break
      case .pending: try writeEmptyMap(slot)
      case .map: try finishMap(slot)
      case .array: finishArray(slot)
      }
    } catch {
      // The user's code may ignore this error, but the value cannot be completed.
      outcome.fail(error)
      throw error
    }
    frames.removeAll(from: slot)
    if slot > 0 && frames[slot &- 1].kind == .array { frames[slot &- 1].next &+= 1 }
  }

  /// Removes a value whose type threw. The user's code may catch the error and continue.
  mutating func abandon(_ slot: Int) {
    guard slot < frames.count else { return }
    let start = frames[slot].start
    for index in (slot..<frames.count).reversed() {
      learnedShapes[index] = nil
      if frames[index].kind == .map { entryStarts.removeSubrange(frames[index].entries...) }
    }
    discardAttachments(from: slot)
    frames.removeAll(from: slot)
    guard slot > 0 else { return }
    let parent = slot - 1
    switch frames[parent].kind {
    case .record:
      output.truncate(to: start)
      if frames[parent].isLearning { learnedShapes[parent]?.removeLast() } else { frames[parent].next -= 1 }
    case .map:
      let entry = entryStarts.removeLast()
      output.truncate(to: entry)
      frames[parent].next -= 1
    case .array: output.truncate(to: max(start, frames[parent].body))
    case .pending, .value: output.truncate(to: start)
    }
  }

  /// Releases the nested containers with their own buffers in a frame and those above it.
  mutating func discardAttachments(from slot: Int) {
    if attachments.isEmpty { return }
    for attachment in attachments where attachment.slot >= slot { attachment.core.destroy() }
    attachments.removeAll { $0.slot >= slot }
  }

  // MARK: - Errors

  static let repeatedKey = "the key is encoded twice in one container"

  /// Returns the keys from the top to a frame.
  func path(to slot: Int) -> [any CodingKey] {
    var path = pathAbove
    for index in 0..<min(slot, frames.count) {
      if let key = currentKey(index) { path.append(key) }
    }
    return path
  }

  /// Returns the key of the part of a frame to which the frame above it belongs.
  private func currentKey(_ slot: Int) -> (any CodingKey)? {
    let frame = frames[slot]
    switch frame.kind {
    case .pending, .value: return nil
    case .array: return PathKey(intValue: frame.next)
    case .map:
      guard frame.next > 0 else { return nil }
      return PathKey(stringValue: entryName(at: entryStarts[frame.entries + frame.next - 1]))
    case .record:
      if frame.isLearning { return learnedShapes[slot]?.fields.last.map { PathKey(stringValue: $0) } }
      guard let positions = frame.positions, frame.next > 0 else { return nil }
      return PathKey(stringValue: positions.shape.fields[frame.next - 1])
    }
  }

  func error(_ slot: Int, key: (any CodingKey)? = nil, _ message: String) -> EncodingError {
    let path = path(to: slot) + (key.map { [$0] } ?? [])
    let value = path.last?.stringValue ?? "the value itself"
    return .invalidValue(value, EncodingError.Context(codingPath: path, debugDescription: message))
  }
}
