/// The state of decoding a value: the bytes, and a frame for each container that was requested.
///
/// # How a value is read
/// A value is read front to back as far as possible. The fields of a record are nearly always requested in the order in
/// which they are stored: a field costs one lookup in the table of its key type, and its value is read where the last
/// one ended. The offsets of passed fields are recorded, so that an earlier field is found again, and a later field is
/// reached by skipping those before it.
///
/// # Frames
/// A frame lasts until the type whose decoder requested it is decoded. A container that is used after that, because its
/// decoder was kept in the value, is detected by its frame's id; then the whole value is decoded again, and every frame
/// is kept to the end.
///
/// # Invariants
/// 1. All offsets are within `source`, which is valid for one call.
/// 2. `cursor` of a frame is after `next` parts of it, except for `owed` values.
/// 3. No method calls the user's code.
struct DecodingState: ~Copyable {
  /// The offsets of a map's values by their keys.
  struct Index {
    let id: UInt32
    let locations: [String: (part: Int, start: Int)]
  }

  private(set) var source = ByteSource()
  var frames = FrameStack<DecodingFrame>()
  var tables: KeyTables
  var offsets = OffsetStack()
  /// The indexes of maps whose keys were not requested in their own order, by slot.
  var indexes: [Int: Index] = [:]
  let shapes: ShapeLookup
  private(set) var keepsFrames = false
  private(set) var wasLate = false
  /// The first damage or storage error that was found. It is kept because the user's code may ignore the error.
  private(set) var damage: (any Error)?
  private var lastID: UInt32 = 0

  init(_ shapes: ShapeCache) {
    self.shapes = ShapeLookup(shapes)
    tables = KeyTables(shapes)
  }

  mutating func begin(_ source: ByteSource, keepsFrames: Bool) {
    end()
    damage = nil
    self.source = source
    self.keepsFrames = keepsFrames
    wasLate = false
  }

  /// Removes the bytes. Containers throw from then on.
  mutating func end() {
    source = ByteSource()
    frames.reset()
    offsets.reset()
    if !indexes.isEmpty { indexes = [:] }
  }

  // MARK: - Frames

  /// Begins a part of a frame. With a shape, it is a record without a header.
  @inline(__always)
  mutating func push(
    parent: Int, part: Int, start: Int, shape: ShapeReference?
  ) throws -> (slot: Int, id: UInt32) {
    let depth = parent < 0 ? 1 : frames[parent].depth &+ 1
    guard CoderLimits.hasRoom(atDepth: depth) else { throw tooDeep(parent, depth) }
    lastID &+= 1
    let slot = frames.count
    frames.append(
      DecodingFrame(
        id: lastID, kind: .value, depth: depth, parent: parent, part: part, start: start,
        offsetsBefore: offsets.count))
    if let shape {
      do throws(ReadFailure) {
        try makeRecord(slot, shape, start)
      } catch {
        frames.removeAll(from: slot)
        throw self.error(error, Any.self, start, path(to: parent))
      }
    }
    return (slot, lastID)
  }

  /// Begins a part that is missing.
  mutating func pushNothing(parent: Int) throws -> (slot: Int, id: UInt32) {
    let pushed = try push(parent: parent, part: 0, start: 0, shape: nil)
    frames[pushed.slot].kind = .nothing
    return pushed
  }

  /// Ends a frame and those above it. Its value ends `owed` values after `end`.
  @inline(__always)
  mutating func pop(_ slot: Int) -> (end: Int, owed: Int) {
    let frame = frames[slot]
    drop(slot)
    switch frame.kind {
    // A value without parts that was not read is itself still to be skipped.
    case .value: return (frame.cursor, frame.next > 0 ? 0 : 1)
    case .nothing: return (frame.start, 0)
    case .record, .array: return (frame.cursor, frame.owed &+ frame.count &- frame.next)
    case .map: return (frame.cursor, frame.owed &+ 2 &* (frame.count &- frame.next))
    case .uniformArray: return (frame.cursor, (frame.count &- frame.next) &* frame.fieldCount)
    case .bytes: return (frame.body &+ frame.count, 0)
    }
  }

  @inline(__always)
  mutating func drop(_ slot: Int) {
    if keepsFrames { return }
    offsets.truncate(to: frames[slot].offsetsBefore)
    frames.removeAll(from: slot)
  }

  @inline(__always)
  func isLive(_ slot: Int, _ id: UInt32) -> Bool { slot < frames.count && frames[slot].id == id }

  /// Returns the error of a container whose frame has ended, and requests that the value is decoded again.
  mutating func late() -> any Error {
    wasLate = true
    let context = DecodingError.Context(
      codingPath: [], debugDescription: "a container was used after the value was complete that it belongs to")
    return DecodingError.dataCorrupted(context)
  }

  // MARK: - Opening

  /// Determines the kind and the parts of a value.
  @inline(__always)
  mutating func open(_ slot: Int) throws(ReadFailure) {
    guard frames[slot].kind == .value else { return }
    // The offsets of a record are kept as long as its frame, so the frame has to be the top one.
    if slot &+ 1 != frames.count && !keepsFrames { throw .other(late()) }
    var offset = frames[slot].start
    let tag = try source.next(&offset)
    if tag == ValueTag.record {
      return try makeRecord(slot, try shapes.shape(try source.shapeNumber(&offset)), offset)
    }
    try openOther(slot, tag, &offset)
  }

  private mutating func openOther(_ slot: Int, _ tag: UInt8, _ offset: inout Int) throws(ReadFailure) {
    switch tag {
    case ValueTag.shortArray..<ValueTag.signed:
      frames[slot].count = Int(tag & 0x0f)
      guard frames[slot].count <= source.count - offset else { throw .damaged }
      frames[slot].kind = .array
    case ValueTag.array:
      frames[slot].count = try source.count(&offset, sizeMinimum: 1)
      frames[slot].kind = .array
    case ValueTag.uniformArray:
      frames[slot].count = try source.count(&offset, sizeMinimum: 1)
      frames[slot].shape = try shapes.shape(try source.shapeNumber(&offset))
      frames[slot].kind = .uniformArray
    case ValueTag.map:
      frames[slot].count = try source.count(&offset, sizeMinimum: 2)
      frames[slot].kind = .map
    case ValueTag.bytes:
      frames[slot].count = try source.count(&offset, sizeMinimum: 1)
      frames[slot].kind = .bytes
    case ValueTag.null: throw .null
    default: throw .mismatch
    }
    frames[slot].body = offset
    frames[slot].cursor = offset
  }

  @inline(__always)
  private mutating func makeRecord(
    _ slot: Int, _ shape: ShapeReference, _ body: Int
  ) throws(ReadFailure) {
    let count = shape.fieldCount
    guard count <= source.count &- body else { throw .damaged }
    frames[slot].kind = .record
    frames[slot].shape = shape
    frames[slot].count = count
    frames[slot].body = body
    frames[slot].cursor = body
    frames[slot].offsets = offsets.count
    offsets.append(count)
  }

  // MARK: - Errors

  /// Returns the keys from the top to a frame.
  func path(to slot: Int) -> [any CodingKey] {
    var path: [any CodingKey] = []
    var index = slot
    while index > 0 && index < frames.count {
      let frame = frames[index]
      if frame.kind != .nothing { path.append(key(of: frame.part, in: frame.parent)) }
      index = frame.parent
    }
    return path.reversed()
  }

  /// Returns the key of a part of a frame.
  func key(of part: Int, in slot: Int) -> any CodingKey {
    let frame = frames[slot]
    switch frame.kind {
    case .record:
      return PathKey(stringValue: frame.shape?.fields[part] ?? "")
    case .map:
      var offset = part
      return PathKey(stringValue: (try? source.string(&offset)) ?? "")
    default: return PathKey(intValue: part)
    }
  }

  private mutating func tooDeep(_ parent: Int, _ depth: Int) -> any Error {
    let message = CoderLimits.reason(atDepth: depth)
    let error = DecodingError.dataCorrupted(.init(codingPath: path(to: parent), debugDescription: message))
    damage = damage ?? error
    return error
  }

  /// Returns the error for a value that could not be read as a type.
  mutating func error(
    _ failure: ReadFailure, _ type: Any.Type, _ start: Int, _ path: [any CodingKey]
  ) -> any Error {
    func context(_ message: String) -> DecodingError.Context {
      DecodingError.Context(codingPath: path, debugDescription: message)
    }
    let found = (try? source.byte(start)).map(ValueTag.name) ?? "nothing"
    switch failure {
    case .damaged:
      let error = DecodingError.dataCorrupted(context("the bytes are damaged"))
      damage = damage ?? error
      return error
    case .mismatch: return DecodingError.typeMismatch(type, context("expected \(type), found \(found)"))
    case .null: return DecodingError.valueNotFound(type, context("expected \(type), found null"))
    case .doesNotFit: return DecodingError.dataCorrupted(context("\(found) that does not fit \(type)"))
    case .badText: return DecodingError.dataCorrupted(context("\(found) is not a valid \(type)"))
    case .other(let error):
      if error is DatabaseError { damage = damage ?? error }
      return error
    }
  }
}
