/// Makes a failing sequence small (delta debugging).
///
/// It leaves out halves, quarters, down to single operations, and then replaces operations by simpler ones, as long
/// as the sequence still fails. The result is 1-minimal unless the tries are used up: without any one of its
/// operations, it no longer fails.
struct SequenceShrinker {
  /// Returns whether a sequence fails.
  let fails: ([SequenceOperation]) -> Bool
  private var triesLeft: Int

  init(tryCountMaximum: Int = 3_000, fails: @escaping ([SequenceOperation]) -> Bool) {
    self.fails = fails
    triesLeft = tryCountMaximum
  }

  /// Returns a smaller failing sequence. Requires: `operations` fails.
  mutating func shrink(_ operations: [SequenceOperation]) -> [SequenceOperation] {
    var best = operations
    var before = 0
    repeat {
      before = size(best)
      best = withoutParts(best)
      best = withSimplerOperations(best)
    } while size(best) < before && triesLeft > 0
    return best
  }

  private func size(_ operations: [SequenceOperation]) -> Int {
    operations.count * 100 + operations.reduce(0) { $0 + $1.simpler.count }
  }

  private mutating func isFailing(_ operations: [SequenceOperation]) -> Bool {
    guard triesLeft > 0 else { return false }
    triesLeft -= 1
    return fails(operations)
  }

  private mutating func withoutParts(_ operations: [SequenceOperation]) -> [SequenceOperation] {
    var best = operations
    var length = max(1, best.count / 2)
    while true {
      var start = 0
      var hasShrunk = false
      while start < best.count {
        var candidate = best
        candidate.removeSubrange(start..<min(start + length, best.count))
        if isFailing(candidate) {
          best = candidate
          hasShrunk = true
        } else {
          start += length
        }
      }
      if length > 1 {
        length /= 2
      } else if !hasShrunk {
        return best
      }
    }
  }

  private mutating func withSimplerOperations(_ operations: [SequenceOperation]) -> [SequenceOperation] {
    var best = operations
    for index in best.indices {
      var isChanged = true
      while isChanged {
        isChanged = false
        for simpler in best[index].simpler {
          var candidate = best
          candidate[index] = simpler
          if isFailing(candidate) {
            best = candidate
            isChanged = true
            break
          }
        }
      }
    }
    return best
  }
}
