public import Foundation

/// A field that can be summed: numbers of all kinds, and durations.
public protocol SummableValue: KeyCodable {
  /// What an average is: of integers and floating-point numbers a `Double`, of others the type itself.
  associatedtype Average: Sendable

  /// What a sum begins with.
  static var zero: Self { get }
  /// Adds the value. Throws `.sumTooLarge` where an integer can't be so large.
  func add(to sum: inout Self) throws
  /// What an average begins with.
  static var zeroAverage: Average { get }
  /// Adds the value to what an average is made of.
  func add(toAverage total: inout Average)
  /// The average of so many values with a total.
  static func average(_ total: Average, count: Int) -> Average
}

extension SummableValue where Self: FixedWidthInteger {
  /// Adds the value. Throws `.sumTooLarge`.
  public func add(to sum: inout Self) throws {
    let (result, overflows) = sum.addingReportingOverflow(self)
    guard !overflows else {
      throw DatabaseError(.sumTooLarge, "the sum is beyond \(self < 0 ? Self.min : Self.max), the end of \(Self.self)")
    }
    sum = result
  }

  /// 0.
  public static var zeroAverage: Double { 0 }
  /// Adds the value.
  public func add(toAverage total: inout Double) { total += Double(self) }
  /// The quotient.
  public static func average(_ total: Double, count: Int) -> Double { total / Double(count) }
}

extension SummableValue where Self: BinaryFloatingPoint {
  /// Adds the value.
  public func add(to sum: inout Self) { sum += self }
  /// 0.
  public static var zeroAverage: Double { 0 }
  /// Adds the value.
  public func add(toAverage total: inout Double) { total += Double(self) }
  /// The quotient.
  public static func average(_ total: Double, count: Int) -> Double { total / Double(count) }
}

extension Int: SummableValue {}
extension Int8: SummableValue {}
extension Int16: SummableValue {}
extension Int32: SummableValue {}
extension Int64: SummableValue {}
extension UInt: SummableValue {}
extension UInt8: SummableValue {}
extension UInt16: SummableValue {}
extension UInt32: SummableValue {}
extension UInt64: SummableValue {}
extension Double: SummableValue {}
extension Float: SummableValue {}

extension Decimal: SummableValue {
  /// Adds the value.
  public func add(to sum: inout Decimal) { sum += self }
  /// 0.
  public static var zeroAverage: Decimal { 0 }
  /// Adds the value.
  public func add(toAverage total: inout Decimal) { total += self }
  /// The quotient.
  public static func average(_ total: Decimal, count: Int) -> Decimal { total / Decimal(count) }
}

extension Duration: SummableValue {
  /// Adds the value.
  public func add(to sum: inout Duration) { sum += self }
  /// Zero.
  public static var zeroAverage: Duration { .zero }
  /// Adds the value.
  public func add(toAverage total: inout Duration) { total += self }
  /// The quotient.
  public static func average(_ total: Duration, count: Int) -> Duration { total / count }
}
