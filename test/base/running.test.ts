/** What is running now: each item until it is removed, in whatever order. */
import t from 'tap'
import { Running } from '../../src/base/running.js'

void t.test('items are removed in any order, each once', (t) => {
  const running = new Running<string>()
  const [a, b, c] = ['a', 'b', 'c'].map((item) => running.add(item))
  const again = running.add('a')
  t.same([...running.items].sort(), ['a', 'a', 'b', 'c'])
  b?.()
  b?.()
  t.same([...running.items].sort(), ['a', 'a', 'c'])
  again()
  c?.()
  t.same(running.items, ['a'])
  a?.()
  t.equal(running.size, 0)
  t.end()
})
