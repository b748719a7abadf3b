import Varve

@testable import VarveEngine

/// A failure that a target found: a lost round trip, a wrong answer, or an error with a code that no bytes may lead to.
package struct FuzzFailure: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) { self.description = description }
}

/// The result of reading an input.
package enum FuzzOutcome: Sendable, Hashable {
  /// The input was read to its end.
  case accepted
  /// The reader reported damage: `.corruption`, or `.invalidKey` for keys.
  case damaged
  /// The input needs a feature that this version does not have: `.unsupportedFormat`, `.unsupportedVersion`.
  case unsupported
}

/// The readers of bytes from disk, each as a function of bytes.
///
/// # Invariants of every target, whatever the bytes are
/// 1. It returns. It neither stops the program nor reads outside its input, which is placed at the edge of a
///    page that can't be read (`GuardedMemory`).
/// 2. The only errors are those of `FuzzOutcome`.
/// 3. It allocates at most `allocationBound(inputSize:)` bytes at a time.
/// 4. Data that was read and is written again is read as the same data.
package enum FuzzTarget: String, CaseIterable, Sendable {
  /// Entries of a batch, as they are in the log.
  case batch
  /// The content of a data block.
  case block
  /// A record of the catalog of the object database.
  case catalog
  /// A compressed block: codec, size, bytes.
  case compression
  /// An entry of the feed of changes, its own record, or one of its keys.
  case feed
  /// A Bloom filter.
  case filter
  /// The footer of a table.
  case footer
  /// The content of an index block.
  case index
  /// A value of the coder JSON, read without its type.
  case jsonValue
  /// A key of a collection.
  case key
  /// Ranges of keys, and bounds of cursors.
  case keyRange
  /// Two segments of the log, as recovery reads them.
  case log
  /// A MANIFEST file.
  case manifest
  /// The content of a properties block.
  case properties
  /// A value of the property list coder, read without its type.
  case propertyList
  /// The content of a block of range tombstones.
  case rangeTombstones
  /// The header of a row before its object, or before its metadata.
  case rowHeader
  /// A whole table.
  case table
  /// A value of the binary coder, with the shapes of its records.
  case value
  /// The payload of a MANIFEST record.
  case versionEdit

  /// Reads `bytes`, which are in `memory` during the call.
  package func run(_ bytes: [UInt8], in memory: GuardedMemory) throws(FuzzFailure) -> FuzzOutcome {
    do {
      try read(memory.copyIn(bytes))
      return .accepted
    } catch let failure as FuzzFailure {
      throw failure
    } catch let error as EngineError {
      switch error.code {
      case .corruption: return .damaged
      case .unsupportedFormat: return .unsupported
      default: throw FuzzFailure("an error that no bytes may lead to: \(error)")
      }
    } catch let error as DatabaseError {
      switch error.code {
      case .corruption: return .damaged
      case .invalidKey where self == .key: return .damaged
      case .unsupportedVersion: return .unsupported
      default: throw FuzzFailure("an error that no bytes may lead to: \(error)")
      }
    } catch {
      throw FuzzFailure("an error of a foreign type: \(error)")
    }
  }

  private func read(_ input: ByteView) throws {
    switch self {
    case .batch: try BatchTarget.read(input)
    case .block: try BlockTarget.read(input)
    case .catalog: try CatalogTarget.read(input.bytes)
    case .compression: try CompressionTarget.read(input)
    case .feed: try FeedTarget.read(input.bytes)
    case .filter: try FilterTarget.read(input)
    case .footer: try FooterTarget.read(input)
    case .index: try IndexTarget.read(input)
    case .jsonValue: try JSONValueTarget.read(input.bytes)
    case .key: unsafe try KeyTarget.read(input.rawSpan)
    case .keyRange: try KeyRangeTarget.read(input)
    case .log: try LogTarget.read(input)
    case .manifest: try ManifestTarget.read(input)
    case .properties: try PropertiesTarget.read(input)
    case .propertyList: try PropertyListTarget.read(input.bytes)
    case .rangeTombstones: try RangeTombstoneTarget.read(input)
    case .rowHeader: unsafe try RowHeaderTarget.read(input.rawSpan)
    case .table: try TableTarget.read(input)
    case .value: unsafe try ValueTarget.read(input.rawSpan)
    case .versionEdit: try VersionEditTarget.read(input)
    }
  }

  /// Returns the number of bytes that a run may have allocated at one time.
  ///
  /// A size that an input announces is not a reason to allocate; only the bytes that it contains are. A compressed
  /// block may unpack to 32,768 times its size.
  package func allocationBound(inputSize: Int) -> Int {
    let fixed = 1 << 20
    switch self {
    case .table: return fixed + inputSize * 40_000
    // Each reference to a string in a property list makes a copy.
    case .propertyList: return fixed + inputSize * (400 + inputSize)
    case .batch, .block, .catalog, .compression, .feed, .filter, .footer, .index, .jsonValue, .key, .keyRange, .log,
      .manifest, .properties, .rangeTombstones, .rowHeader, .value, .versionEdit:
      return fixed + inputSize * 400
    }
  }

  /// The maximum size of an input: larger ones find no further faults, and cost more.
  package static let inputSizeMaximum = 256 << 10
}

/// Throws a failure unless the condition holds.
func require(_ condition: Bool, _ message: @autoclosure () -> String) throws {
  if !condition { throw FuzzFailure(message()) }
}
