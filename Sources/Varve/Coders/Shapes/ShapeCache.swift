internal import FutexLocks
internal import Synchronization

/// A shape with its number, and the positions of its fields by name.
final class KnownShape: Sendable {
  let number: UInt32
  let fields: [String]
  let fieldCount: Int
  private let positions: [String: Int]

  init(_ number: UInt32, _ shape: Shape) {
    self.number = number
    fields = shape.fields
    fieldCount = shape.fields.count
    // The names in a shape are distinct.
    positions = Dictionary(shape.fields.enumerated().map { ($1, $0) }) { first, _ in first }
  }

  func position(of name: String) -> Int? { positions[name] }

  /// Returns whether the shape has all fields of another one, in the same order.
  func continues(_ other: KnownShape) -> Bool {
    var rest = fields[...]
    return other.fields.allSatisfy { field in
      guard let index = rest.firstIndex(of: field) else { return false }
      rest = rest[(index + 1)...]
      return true
    }
  }
}

/// An unowned reference to a known shape, without reference counting.
///
/// # Safety
/// The shape comes from a cache, which keeps every shape that it has returned until it is released. The owner of this
/// reference retains the cache.
@safe
struct ShapeReference: BitwiseCopyable, Equatable {
  private let shape: Unmanaged<KnownShape>

  init(_ shape: KnownShape) { unsafe self.shape = Unmanaged.passUnretained(shape) }

  @inline(__always)
  var number: UInt32 { unsafe shape._withUnsafeGuaranteedRef { $0.number } }
  @inline(__always)
  var fieldCount: Int { unsafe shape._withUnsafeGuaranteedRef { $0.fieldCount } }
  var fields: [String] { unsafe shape._withUnsafeGuaranteedRef { $0.fields } }

  var known: KnownShape { unsafe shape.takeUnretainedValue() }

  func position(of name: String) -> Int? { unsafe shape._withUnsafeGuaranteedRef { $0.position(of: name) } }

  /// Returns a learned shape that begins with the first `count` fields of the shape.
  func learnedShape(_ count: Int) -> LearnedShape {
    unsafe shape._withUnsafeGuaranteedRef { LearnedShape(Array($0.fields[..<count]), base: $0) }
  }

  @inline(__always)
  static func == (left: ShapeReference, right: ShapeReference) -> Bool {
    unsafe left.shape.toOpaque() == right.shape.toOpaque()
  }
}

/// The shapes that a coder has used, by number and by shape. All encoders and decoders of a database share the cache;
/// its entries are never removed.
final class ShapeCache: Sendable {
  private struct State {
    var byNumber: [UInt32: KnownShape] = [:]
    var byShape: [Shape: KnownShape] = [:]
    var orders: [OrderKey: Order] = [:]
    /// The key types whose fields are encoded in too many orders.
    var disorderly: Set<UInt> = []
  }

  /// A key type by its address, and the byte of a record's first key.
  private struct OrderKey: Hashable {
    let type: UInt
    let first: UInt8
  }

  /// The last shape of such records, and the number of times it replaced one that it does not continue.
  private struct Order {
    var shape: KnownShape
    var changes = 0
  }

  private let registry: any ShapeRegistry
  private let state = FutexLock(State())

  init(_ registry: any ShapeRegistry) { self.registry = registry }

  /// Returns the shape with a number.
  func shape(_ number: UInt32) throws -> KnownShape {
    if let known = state.withLock({ $0.byNumber[number] }) { return known }
    return keep(number, try registry.shape(number))
  }

  /// Returns a shape with its number.
  func known(_ shape: Shape) throws -> KnownShape {
    if let known = state.withLock({ $0.byShape[shape] }) { return known }
    let number = try registry.number(of: shape)
    guard number != 0 else { throw DatabaseError(.invalidArgument, "the registry gave a shape the number 0") }
    return keep(number, shape)
  }

  // MARK: - Orders

  /// Returns the last shape of a record with such a first key, or nil if there is none.
  func expectation(_ type: UInt, _ first: UInt8) -> KnownShape? {
    state.withLock { $0.orders[OrderKey(type: type, first: first)]?.shape }
  }

  /// Notes the shape of a record. Returns false if the key type has had too many shapes. A shape that only adds fields
  /// to the previous one does not count, because the number of fields is limited.
  func learn(_ type: UInt, _ first: UInt8, _ shape: KnownShape) -> Bool {
    state.withLock { state in
      let key = OrderKey(type: type, first: first)
      var order = state.orders[key] ?? Order(shape: shape)
      if order.shape !== shape {
        if !shape.continues(order.shape) { order.changes += 1 }
        order.shape = shape
      }
      state.orders[key] = order
      if order.changes >= CoderLimits.shapesPerFirstField { state.disorderly.insert(type) }
      return !state.disorderly.contains(type)
    }
  }

  func isDisorderly(_ type: UInt) -> Bool { state.withLock { $0.disorderly.contains(type) } }

  /// Returns the known shape of a number, and keeps it. If two threads ask at the same time, the first wins, so that
  /// there is one object for each number.
  private func keep(_ number: UInt32, _ shape: Shape) -> KnownShape {
    state.withLock { state in
      let known = state.byNumber[number] ?? KnownShape(number, shape)
      state.byNumber[number] = known
      state.byShape[shape] = known
      return known
    }
  }
}

/// The shapes that one encoder or decoder has used last, by number, without a lock and without reference counting.
///
/// # Safety
/// The lookup is the only owner of its slots.
@safe
struct ShapeLookup: ~Copyable {
  private let cache: ShapeCache
  private let slots: UnsafeMutablePointer<Slot>
  private static let slotCount = 256

  private struct Slot {
    var number: UInt32 = 0
    var shape: ShapeReference?
  }

  init(_ cache: ShapeCache) {
    self.cache = cache
    unsafe slots = .allocate(capacity: ShapeLookup.slotCount)
    unsafe slots.initialize(repeating: Slot(), count: ShapeLookup.slotCount)
  }

  deinit { unsafe slots.deallocate() }

  @inline(__always)
  func shape(_ number: UInt32) throws(ReadFailure) -> ShapeReference {
    let slot = unsafe slots + Int(number % UInt32(ShapeLookup.slotCount))
    if let shape = unsafe slot.pointee.shape, unsafe slot.pointee.number == number { return shape }
    return try find(number)
  }

  @inline(never)
  private func find(_ number: UInt32) throws(ReadFailure) -> ShapeReference {
    guard number != 0 else { throw .damaged }
    do {
      let shape = ShapeReference(try cache.shape(number))
      unsafe slots[Int(number % UInt32(ShapeLookup.slotCount))] = Slot(number: number, shape: shape)
      return shape
    } catch {
      throw .other(error)
    }
  }

  func known(_ shape: Shape) throws -> ShapeReference { ShapeReference(try cache.known(shape)) }

  func expectation(_ type: UInt, _ first: UInt8) -> ShapeReference? {
    cache.expectation(type, first).map { ShapeReference($0) }
  }

  func learn(_ type: UInt, _ first: UInt8, _ shape: ShapeReference) -> Bool {
    cache.learn(type, first, shape.known)
  }
}
