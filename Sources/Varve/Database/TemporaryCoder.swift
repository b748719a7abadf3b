internal import Foundation
struct ValueCoder: Sendable {
  init(_ kind: CoderKind, shapes: any ShapeRegistry) {}
  func encode<T: Encodable>(_ v: T) throws -> (shape: UInt32, bytes: [UInt8]) { (0, Array(try JSONEncoder().encode([v]))) }
  func decode<T: Decodable>(_ t: T.Type, shape: UInt32, from: RawSpan) throws -> T {
    try JSONDecoder().decode([T].self, from: Data(from.copied))[0]
  }
}
/// x
public enum CoderKind: UInt8, Hashable, Sendable, CaseIterable { 
  /// x
  case raw = 0
  /// x
  case binary = 1
  /// x
  case json = 2
  /// x
  case propertyList = 3 }
protocol ShapeRegistry: AnyObject, Sendable {
  func number(of shape: Shape) throws -> UInt32
  func shape(_ number: UInt32) throws -> Shape
}
struct Shape: Hashable, Sendable { let bytes: [UInt8]; init(_ b: [UInt8]) throws { bytes = b } }
public enum ChangeEvent: Sendable { 
  /// x
  case changes(ChangeSet), gap(from: CommitVersion, to: CommitVersion) }
extension DatabaseCore { func feedEvents(after: CommitVersion, through: CommitVersion) throws -> [ChangeEvent] { [] } }
extension ChangeSet { var rowCount: Int { allKeys.count } }
