/// The names of a record's fields in order, which all rows of a type share. A shape is stored once in the catalog,
/// under a number.
///
/// # Format
///
///     byte 0      version of this format, 1
///     varint      count of fields, at least 1
///     each field  varint size of the name, the name in UTF-8
///
/// A varint is little-endian in groups of seven bits, with the high bit set in all bytes but the last. The format is
/// stored on disk and must never change.
///
/// # Why a shape has names only
/// The values contain their own kinds, in tags that cost nothing for small integers, short strings and Booleans. A
/// shape with the kinds would save about four bytes in a row of two hundred; but then an optional, a payload of any
/// kind or the case of an enum would each need another shape, and the bytes of a row would depend on earlier rows.
package struct Shape: Hashable, Sendable, CustomStringConvertible {
  /// The names of the fields, in the order of their values.
  package let fields: [String]

  /// Creates a shape. Throws `.invalidArgument` if there are no names or too many, or they are too long or not
  /// distinct.
  package init(fields: [String]) throws {
    if let fault = Shape.fault(of: fields) { throw DatabaseError(.invalidArgument, "no shape: \(fault)") }
    self.fields = fields
  }

  /// Reads a shape from its canonical bytes. Throws `.corruption` if they are not a shape, and `.unsupportedVersion` if
  /// a later version wrote them.
  package init(_ bytes: [UInt8]) throws {
    self = unsafe try bytes.withUnsafeBytes { try unsafe Shape(ByteSource($0)) }
  }

  private init(_ source: ByteSource) throws {
    do throws(ReadFailure) {
      var offset = 0
      let version = try source.next(&offset)
      guard version == 1 else { throw .other(DatabaseError(.unsupportedVersion, "a shape of format \(version)")) }
      let count = try source.count(&offset, sizeMinimum: 1)
      var fields: [String] = []
      for _ in 0..<count {
        let size = try source.count(&offset, sizeMinimum: 1)
        fields.append(try source.text(&offset, size: size))
      }
      if let fault = Shape.fault(of: fields) {
        throw .other(DatabaseError(.corruption, "a shape is damaged: \(fault)"))
      }
      guard offset == source.count else { throw .damaged }
      self.fields = fields
    } catch .other(let error) {
      throw error
    } catch {
      throw DatabaseError(.corruption, "a shape is damaged: it is truncated, has trailing bytes, or is not UTF-8")
    }
  }

  /// The canonical encoding.
  var bytes: [UInt8] {
    var buffer = CodingBuffer()
    buffer.append(byte: 1)
    buffer.append(varint: UInt64(fields.count))
    for field in fields {
      buffer.append(varint: UInt64(field.utf8.count))
      for byte in field.utf8 { buffer.append(byte: byte) }
    }
    return buffer.bytes
  }

  /// A text such as `{id, title, year}`.
  package var description: String { "{\(fields.joined(separator: ", "))}" }

  /// Returns whether a record may have a field of this name, regardless of its other fields.
  static func isField(_ name: String) -> Bool { name.utf8.count <= CoderLimits.nameSizeMaximum }

  private static func fault(of fields: [String]) -> String? {
    if fields.isEmpty { return "it has no fields" }
    if fields.count > CoderLimits.fieldCountMaximum { return "it has \(fields.count) fields" }
    if !fields.allSatisfy(isField) { return "the name of a field is too long" }
    if Set(fields).count != fields.count { return "it has two fields of one name" }
    return nil
  }
}
