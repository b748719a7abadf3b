internal import Synchronization

/// A shape with its number, and its fields by name.
final class KnownShape: Sendable {
  let number: UInt32
  let fields: [String]
  let fieldCount: Int
  private let positions: [String: Int]

  init(_ number: UInt32, _ shape: Shape) {
    self.number = number
    fields = shape.fields
    fieldCount = shape.fields.count
    // A shape has each name once.
    positions = Dictionary(shape.fields.enumerated().map { ($1, $0) }) { first, _ in first }
  }

  func position(of name: String) -> Int? { positions[name] }
}

/// A known shape, without counting a reference.
///
/// # Safety
/// It comes from a cache, which keeps every shape that it ever gave until its own end, and whoever has one of these
/// holds the cache.
@safe
struct ShapeReference: BitwiseCopyable, Equatable {
  private let shape: Unmanaged<KnownShape>

  init(_ shape: KnownShape) { unsafe self.shape = Unmanaged.passUnretained(shape) }

  @inline(__always)
  var number: UInt32 { unsafe shape._withUnsafeGuaranteedRef { $0.number } }
  @inline(__always)
  var fieldCount: Int { unsafe shape._withUnsafeGuaranteedRef { $0.fieldCount } }
  var fields: [String] { unsafe shape._withUnsafeGuaranteedRef { $0.fields } }

  func position(of name: String) -> Int? { unsafe shape._withUnsafeGuaranteedRef { $0.position(of: name) } }

  /// A lesson that begins with the first fields of the shape.
  func lesson(_ count: Int) -> Lesson {
    unsafe shape._withUnsafeGuaranteedRef { Lesson(Array($0.fields[..<count]), base: $0) }
  }

  @inline(__always)
  static func == (left: ShapeReference, right: ShapeReference) -> Bool {
    unsafe left.shape.toOpaque() == right.shape.toOpaque()
  }
}

/// The shapes that a coder has met, by number and by shape. Shared by all encoders and decoders of a database; what is
/// in it stays until the end.
final class ShapeCache: Sendable {
  private struct State {
    var byNumber: [UInt32: KnownShape] = [:]
    var byShape: [Shape: KnownShape] = [:]
  }

  private let registry: any ShapeRegistry
  private let state = Mutex(State())

  init(_ registry: any ShapeRegistry) { self.registry = registry }

  /// The shape with a number.
  func shape(_ number: UInt32) throws -> KnownShape {
    if let known = state.withLock({ $0.byNumber[number] }) { return known }
    return keep(number, try registry.shape(number))
  }

  /// The number of a shape.
  func known(_ shape: Shape) throws -> KnownShape {
    if let known = state.withLock({ $0.byShape[shape] }) { return known }
    let number = try registry.number(of: shape)
    guard number != 0 else { throw DatabaseError(.invalidArgument, "the registry gave a shape the number 0") }
    return keep(number, shape)
  }

  /// Of two threads that asked at once, the first wins: there is one object for each number.
  private func keep(_ number: UInt32, _ shape: Shape) -> KnownShape {
    state.withLock { state in
      let known = state.byNumber[number] ?? KnownShape(number, shape)
      state.byNumber[number] = known
      state.byShape[shape] = known
      return known
    }
  }
}

/// The shapes that one encoder or decoder has met last, by number: no lock, and no count of references.
///
/// # Safety
/// The only owner of its slots.
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
}
