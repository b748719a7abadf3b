internal import Foundation
internal import Varve

/// Reads and transfers the values of rows without their types, by the coder and a registry of shapes.
///
/// Safe from any thread.
final class InspectedCoding: Sendable {
  let shapes: any ShapeRegistry
  private let binary: BinaryCoder

  init(_ shapes: any ShapeRegistry) {
    self.shapes = shapes
    binary = BinaryCoder(shapes: shapes)
  }

  // MARK: - As JSON

  /// Returns a value as JSON on one line, or `nil` if its bytes can't be converted.
  ///
  /// Not convertible are the bytes of the coder `raw` and of programs' own coders, and a property list as XML, which
  /// the coder reads and never writes. The coder `json` yields its own text. Throws `.corruption` if the bytes are not
  /// valid for the coder.
  ///
  /// The coder JSON yields its own text. Throws `.corruption` if the bytes are not valid for the coder.
  func json(_ bytes: ArraySlice<UInt8>, shape: UInt32, coder: CoderName) throws -> String? {
    guard shape == 0 || coder.kind == .binary else {
      throw DatabaseError(.corruption, "a value of the coder \(coder) has a shape, and must have none")
    }
    switch coder.kind {
    case .raw, .own, nil: return nil
    case .json: return try Self.jsonText(bytes)
    case .binary:
      return try unsafe bytes.withUnsafeBytes { raw in
        try unsafe binary.untyped(from: RawSpan(_unsafeBytes: raw), shape: shape).json
      }
    case .propertyList:
      if bytes.starts(with: "<?xml".utf8) || bytes.starts(with: "<plist".utf8) { return nil }
      return try BinaryPropertyList.value(bytes).json
    }
  }

  /// Returns stored JSON unchanged, except that line breaks between its values become spaces.
  ///
  /// JSON has no line breaks inside strings.
  private static func jsonText(_ bytes: ArraySlice<UInt8>) throws -> String {
    // A reader of UTF-8 must not get text that a lenient reader takes for UTF-16 or UTF-32.
    let isPlain = bytes.allSatisfy { $0 >= 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    guard isPlain, !bytes.starts(with: [0xEF, 0xBB, 0xBF]), let text = String(validating: bytes, as: UTF8.self) else {
      throw DatabaseError(.corruption, "not valid JSON: not UTF-8")
    }
    do {
      _ = try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
    } catch {
      throw DatabaseError(.corruption, "not valid JSON", cause: error)
    }
    guard bytes.contains(where: { $0 < 0x20 }) else { return text }
    return String(decoding: bytes.map { $0 < 0x20 ? 0x20 : $0 }, as: UTF8.self)
  }

  // MARK: - From one catalog to another

  /// Returns a value with its shapes spelled out.
  func portable(
    _ bytes: ArraySlice<UInt8>, shape: UInt32, version: String?, coder: CoderName
  ) throws -> PortableValue {
    guard coder.kind == .binary else { return PortableValue(version: version, bytes: Array(bytes)) }
    let fields = shape == 0 ? [] : try shapes.shape(shape).fields
    let used = UsedShapes(shapes)
    let transfer = ShapeTransfer(fieldCount: used.fieldCount, number: used.location)
    let moved = try transfer.run(Array(bytes), fields: shape == 0 ? nil : fields.count)
    return PortableValue(version: version, shape: fields, shapes: used.fields, bytes: moved)
  }

  /// Returns a value with the shape numbers that this catalog has, or now assigns.
  ///
  /// Throws `.invalidArgument` for invalid shapes, and `.corruption` for bytes that are not a value of these shapes.
  func stored(_ value: PortableValue, coder: CoderName) throws -> (shape: UInt32, bytes: [UInt8]) {
    guard coder.kind == .binary else {
      guard value.shape.isEmpty, value.shapes.isEmpty else {
        throw DatabaseError(.invalidArgument, "a value of the coder \(coder) has a shape, and must have none")
      }
      return (0, value.bytes)
    }
    var numbers: [UInt32] = []
    for fields in value.shapes { numbers.append(try shapes.number(of: Shape(fields: fields))) }
    func location(_ number: UInt32) throws -> Int {
      guard number >= 1, number <= numbers.count else {
        throw DatabaseError(.corruption, "its bytes name the shape \(number) of \(numbers.count)")
      }
      return Int(number) - 1
    }
    let own = value.shape.isEmpty ? 0 : try shapes.number(of: Shape(fields: value.shape))
    let transfer = ShapeTransfer(
      fieldCount: { value.shapes[try location($0)].count }, number: { numbers[try location($0)] })
    return (own, try transfer.run(value.bytes, fields: own == 0 ? nil : value.shape.count))
  }
}

/// The shapes that a value names, in order of first occurrence.
private final class UsedShapes {
  let shapes: any ShapeRegistry
  private var locations: [UInt32: Int] = [:]
  private(set) var fields: [[String]] = []

  init(_ shapes: any ShapeRegistry) { self.shapes = shapes }

  func fieldCount(_ number: UInt32) throws -> Int { fields[try index(number)].count }
  func location(_ number: UInt32) throws -> UInt32 { UInt32(try index(number) + 1) }

  private func index(_ number: UInt32) throws -> Int {
    if let index = locations[number] { return index }
    fields.append(try shapes.shape(number).fields)
    locations[number] = fields.count - 1
    return fields.count - 1
  }
}
