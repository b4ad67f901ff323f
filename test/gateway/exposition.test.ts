/** The parser of the Prometheus text format, which other tests use, rejects text that Prometheus cannot parse. */
import t from 'tap'
import { samplesOf } from './exposition.js'

const counter = '# HELP a_total Something.\n# TYPE a_total counter\n'

void t.test('samples are parsed, with their labels sorted', async (t) => {
  const text = `${counter}a_total{b="x\\"y,{}",a="\\\\"} 1\na_total 2.5\n`
  t.same(
    [...samplesOf(text)],
    [
      ['a_total{a="\\\\",b="x\\"y,{}"}', 1],
      ['a_total', 2.5],
    ],
  )
})

void t.test('text that Prometheus cannot parse is rejected', async (t) => {
  for (const text of [
    `${counter}a_total 1`,
    `${counter}b_total 1\n`,
    `${counter}a_total one\n`,
    `${counter}a_total 1\na_total 2\n`,
    `${counter}a_total{a="x} 1\n`,
    `${counter}a_total{a="x\\y"} 1\n`,
    `${counter}${counter}`,
    '# TYPE a_total counter\na_total 1\n',
    '# HELP h x.\n# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n',
    '# HELP h x.\n# TYPE h histogram\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n',
  ]) {
    t.throws(() => samplesOf(text), text)
  }
})
