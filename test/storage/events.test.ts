/** Listeners of changes of the tree. */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { Events, type TreeChange } from '../../src/storage/events.js'

void t.test('a listener receives events until it is removed', async (t) => {
  const events = new Events()
  const heard: TreeChange[] = []
  const stop = events.on((event) => heard.push(event))
  events.emit({ kind: 'written', path: asPath('/a') })
  stop()
  events.emit({ kind: 'removed', path: asPath('/a') })
  t.same(heard, [{ kind: 'written', path: '/a' }])
})
