/** Whether an earlier run of the program has ended, even if its process number is reused or it is a zombie. */
import t from 'tap'
import { isRunning, processStartTime, thisInstance } from '../../src/installation/instance.js'
import { zombie } from '../zombie.js'

const notLinux = process.platform === 'linux' ? false : 'only Linux shows the state of processes'

void t.test('isOver() of an instance name says whether its process has ended', async (t) => {
  const own = thisInstance()
  const onLinux = process.platform === 'linux'
  t.not(own.name, thisInstance().name)
  t.match(own.name, /^[\w-]{1,100}$/, 'the name is a valid file name')
  t.equal(own.boot, thisInstance().boot, 'both instances are of the same boot')
  t.equal(own.boot !== undefined, onLinux)
  t.equal(own.isOver(own.name), false, 'this process runs')
  t.equal(own.isOver(thisInstance().name), false, 'another instance of this process')
  const [host = '', boot = '', pid = '', started = ''] = own.name.split('-')
  t.equal(own.isOver(`${host}-${boot}-${pid}-${Number(started) + 1}-x`), onLinux, 'a reused process number')
  t.equal(own.isOver(`${host}-${boot}-4194999-1-x`), true, 'no such process')
  t.equal(own.isOver(`${host}-00000000-${pid}-${started}-x`), onLinux ? true : undefined, 'an earlier boot')
  t.equal(own.isOver(`00000000-${boot}-${pid}-${started}-x`), undefined, 'unknown for another machine')
  t.equal(own.runs(own.name), true)
  t.equal(own.runs(`${host}-${boot}-4194999-1-x`), false)
  t.equal(own.runs(`${host}-00000000-${pid}-${started}-x`), undefined, 'an earlier boot, or a copy of the machine')
  for (const name of ['', 'x', '..', `${own.name}/x`]) t.equal(own.isOver(name), undefined, name)
})

void t.test('containers of one machine do not judge each other', { skip: notLinux }, async (t) => {
  const place = { host: '0123abcd', bootId: 'boot', namespace: 'pid:[1]' }
  const [one, other] = [thisInstance(place), thisInstance({ ...place, namespace: 'pid:[2]' })]
  for (const judge of ['isOver', 'runs'] as const) t.equal(one[judge](other.name), undefined, judge)
  const rebooted = thisInstance({ ...place, bootId: 'next' })
  t.equal(rebooted.isOver(one.name), true)
  t.equal(rebooted.runs(one.name), undefined)
})

void t.test('isRunning() compares the number and the start time of a process', async (t) => {
  const started = processStartTime(process.pid) ?? ''
  t.equal(isRunning(process.pid, started), true)
  t.equal(isRunning(4194999, started), false)
  if (process.platform === 'linux') t.equal(isRunning(process.pid, `${started}0`), false)
})

void t.test('a zombie process is not running', { skip: notLinux }, async (t) => {
  const { pid, started } = await zombie(t)
  t.equal(isRunning(pid, started), false)
  const [host = '', boot = ''] = thisInstance().name.split('-')
  t.equal(thisInstance().isOver(`${host}-${boot}-${pid}-${started}-x`), true)
})
