/** V8 accepts the flags of early optimization, and they have their effect. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { optimizationFlags } from '../../src/process/early-optimization.js'

void t.test('this version of Node.js has the flags, and V8 lists them', async (t) => {
  const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  for (const flag of optimizationFlags(process.versions.v8)) {
    t.match(options, `${flag.slice(0, flag.indexOf('='))} `)
  }
})

void t.test('a function of a daemon is optimized after fewer calls', async (t) => {
  /** Whether a function is optimized after 2,000 calls, which run in turns so that the compiler has time. */
  const program = `
    import { setImmediate } from 'node:timers/promises'
    if (process.argv[1] === 'early') {
      const { optimizeEarly } = await import(process.argv[2])
      optimizeEarly()
    }
    const add = (one, other) => one + other * 2
    let sum = 0
    for (let call = 0; call < 2000; call++) {
      sum = add(sum, call) % 1000
      if (call % 50 === 0) await setImmediate()
    }
    const isOptimized = () => (%GetOptimizationStatus(add) & 64) !== 0
    for (let turn = 0; turn < 50; turn++) await setImmediate()
    // The compiler is a thread, for which a busy machine may have no processor yet.
    const end = performance.now() + 60_000
    while (process.argv[1] === 'early' && !isOptimized() && performance.now() < end) await setImmediate()
    process.stdout.write(String(isOptimized()))`
  const module = new URL('../../src/process/early-optimization.js', import.meta.url).href
  const ask = (how: string) =>
    execFileSync(process.execPath, ['--allow-natives-syntax', '--input-type=module', '--eval', program, how, module], {
      encoding: 'utf8',
    })
  t.equal(ask('early'), 'true')
  // Later versions optimize a function as small as this one early by themselves.
  if (Number.parseInt(process.versions.v8, 10) < 12) t.equal(ask('by default'), 'false')
})
