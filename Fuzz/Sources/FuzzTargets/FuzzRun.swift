/// The numbered inputs of one target: input `index` of a seed is always the same bytes.
package struct FuzzRun: Sendable {
  package let target: FuzzTarget
  package let seed: UInt64
  private let corpus: [[UInt8]]

  /// Creates a run over the built inputs of the seed and the inputs kept from earlier runs.
  package init(_ target: FuzzTarget, seed: UInt64, kept: [[UInt8]] = []) {
    self.target = target
    self.seed = seed
    corpus = FuzzCorpus.build(target, count: 48, seed: seed ^ 0x5eed) + kept.filter { !$0.isEmpty }
  }

  /// The number of undamaged inputs, which `input` returns first.
  package var builtCount: UInt64 { UInt64(corpus.count) }

  /// Returns the input with a number: first the undamaged corpus, then damaged inputs, most of them with correct
  /// checksums.
  package func input(_ index: UInt64) -> [UInt8] {
    if index < builtCount { return corpus[Int(index)] }
    var random = SeededRandom(seed: seed &+ index &* 0x9e37_79b9_7f4a_7c15)
    let base = corpus[random.below(corpus.count)]
    var bytes = Mutator.mutate(base, with: corpus[random.below(corpus.count)], &random)
    if !random.oneIn(8) { Sealer.seal(&bytes, target) }
    return bytes
  }

  /// Corrects checksums, for other drivers.
  package static func seal(_ bytes: inout [UInt8], _ target: FuzzTarget) { Sealer.seal(&bytes, target) }
}
