/// A value that is being encoded. Its children are the frames above it.
struct EncodingFrame: BitwiseCopyable {
  enum Kind: UInt8 {
    /// Nothing was asked for yet.
    case pending
    /// A value without parts; it is written.
    case value
    case record, map, array
  }

  /// Never the same for two frames of an encoder: a container whose frame has another id came too late.
  let id: UInt32
  var kind = Kind.pending
  /// A record whose shape stands elsewhere: in the row's header, or once for all elements of an array.
  var isBare = false
  /// An array whose elements so far are bare records of `elementShape`, which is 0 before the first is complete.
  var isUniform = false
  /// A record that was given a field as absent, because the shape has one there.
  var isFilled = false
  /// A record whose shape is being learned: see `Lesson`.
  var isLearning = false
  /// The byte of the key that the record began with.
  var firstByte: UInt8 = 0
  /// Whether that byte was noted: then the shape is kept for the next record that begins so.
  var hasFirstByte = false
  var elementShape: UInt32 = 0
  /// Where the value begins, with the room for its header.
  var start: Int
  /// Where its content begins.
  var body: Int
  /// Record: the position of the field that is expected next. Array, map: how many elements there are.
  var next = 0
  /// Map: where its first entry stands in `entryStarts`.
  var entries = 0
  /// Record: the key type and the positions in the shape that are expected; those of the container that wrote last.
  var table: KeyTablePointer?
  var positions: PositionTable?
  /// The key type that `firstByte` is of.
  var firstTable: KeyTablePointer?

  init(id: UInt32, start: Int) {
    self.id = id
    self.start = start
    body = start
  }
}

/// A record whose fields are not those of the shape that was expected, or of which none was.
///
/// The shape that comes out of it has the fields in the order in which they came. Fields that were expected and did
/// not come stay in it, as absent: so a type that leaves fields out now and then ends up with one shape for all of
/// them, after a few values.
final class Lesson {
  private(set) var fields: [String]
  private let base: KnownShape?
  private var baseNext: Int
  private var isLastOfBase = false

  init(_ fields: [String], base: KnownShape?) {
    self.fields = fields
    self.base = base
    baseNext = fields.count
  }

  enum Outcome {
    /// The field is next, after some that are absent.
    case next(absent: Int)
    /// The field was there before.
    case repeated
  }

  /// Adds a field. `precedes` says whether one that is expected is declared before it.
  func add(_ name: String, precedes: (String) -> Bool) -> Outcome {
    if let base, let position = base.position(of: name), position >= baseNext {
      let absent = position - baseNext
      fields += base.fields[baseNext...position]
      baseNext = position + 1
      isLastOfBase = true
      return .next(absent: absent)
    }
    if fields.contains(name) { return .repeated }
    // A new one goes where it would stand if all fields were there, so far as that is known: most types encode their
    // fields in the order in which they declare them.
    let passed = base.map { $0.fields[baseNext...].prefix { precedes($0) } } ?? []
    fields += passed
    baseNext += passed.count
    fields.append(name)
    isLastOfBase = false
    return .next(absent: passed.count)
  }

  /// Takes the last field back.
  func removeLast() {
    fields.removeLast()
    if isLastOfBase { baseNext -= 1 }
    isLastOfBase = false
  }

  /// Adds the fields that did not come, and gives their count.
  func finish() -> Int {
    guard let base else { return 0 }
    let absent = base.fields.count - baseNext
    fields += base.fields[baseNext...]
    baseNext = base.fields.count
    return absent
  }
}
