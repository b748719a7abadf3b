/// The state of a value that is being encoded. The frames above it are its children.
struct EncodingFrame: BitwiseCopyable {
  enum Kind: UInt8 {
    /// No container was requested yet.
    case pending
    /// A value without parts that was written.
    case value
    case record, map, array
  }

  /// An id that is unique among the frames of an encoder. A container whose frame has another id was used too late.
  let id: UInt32
  var kind = Kind.pending
  /// Whether the frame is a record whose shape is stored elsewhere: in the row's header, or once for all elements of an
  /// array.
  var isBare = false
  /// Whether the frame is an array whose elements so far are bare records of `elementShape`, which is 0 before the
  /// first is complete.
  var isUniform = false
  /// Whether the frame is a record in which a field was written as absent because the shape has one at that position.
  var isFilled = false
  /// Whether the frame is a record whose shape is being learned: see `LearnedShape`.
  var isLearning = false
  /// The byte of the record's first key.
  var firstByte: UInt8 = 0
  /// Whether `firstByte` was set. The shape is then kept for the next record with the same first key.
  var hasFirstByte = false
  var elementShape: UInt32 = 0
  /// The offset at which the value begins, including the space for its header.
  var start: Int
  /// The offset at which the content begins.
  var body: Int
  /// For a record, the position of the next expected field; for an array or a map, the number of elements.
  var next = 0
  /// For a map, the index of its first entry in `entryStarts`.
  var entries = 0
  /// For a record, the key type of the container that wrote last, and the expected positions of its keys.
  var table: KeyTablePointer?
  var positions: PositionTable?
  /// The key type of `firstByte`.
  var firstTable: KeyTablePointer?

  init(id: UInt32, start: Int) {
    self.id = id
    self.start = start
    body = start
  }
}

/// The shape of a record that does not match the expected shape, or for which none was expected.
///
/// The resulting shape has the fields in the order in which they were encoded. Fields that were expected and not
/// encoded remain in it, as absent. So a type that sometimes leaves fields out has a single shape for all its values
/// after a few of them.
final class LearnedShape {
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
    /// The field is next, after some absent fields.
    case next(absent: Int)
    /// The field was encoded before.
    case repeated
  }

  /// Adds a field. `precedes` returns whether an expected field is declared before it.
  func add(_ name: String, precedes: (String) -> Bool) -> Outcome {
    if let base, let position = base.position(of: name), position >= baseNext {
      let absent = position - baseNext
      fields += base.fields[baseNext...position]
      baseNext = position + 1
      isLastOfBase = true
      return .next(absent: absent)
    }
    if fields.contains(name) { return .repeated }
    // A new field is added where it would be if all fields were encoded, as far as that is known: most types encode
    // their fields in the order of declaration.
    let passed = base.map { $0.fields[baseNext...].prefix { precedes($0) } } ?? []
    fields += passed
    baseNext += passed.count
    fields.append(name)
    isLastOfBase = false
    return .next(absent: passed.count)
  }

  /// Removes the last field.
  func removeLast() {
    fields.removeLast()
    if isLastOfBase { baseNext -= 1 }
    isLastOfBase = false
  }

  /// Adds the remaining expected fields, and returns their number.
  func finish() -> Int {
    guard let base else { return 0 }
    let absent = base.fields.count - baseNext
    fields += base.fields[baseNext...]
    baseNext = base.fields.count
    return absent
  }
}
