/** The API of locked sign-ins, and the overview. */
import t from 'tap'
import { anEvent } from '../../../audit/an-event.js'
import { serve } from '../served.js'

void t.test('an address that failed too often is listed, and unlocked', async (t) => {
  const admin = await serve(t)
  const signIn = (username: string, password: string) => admin.post('/api/auth/login', { username, password })
  t.strictSame((await admin.get('/api/admin/sign-ins')).data, [])
  for (let n = 0; n < 5; n++) await signIn(n < 4 ? 'admin' : 'my password', 'wrong')
  t.match(await signIn('admin', 'admin password'), { code: 429 })
  const { data } = await admin.get('/api/admin/sign-ins')
  const [address, ...others] = data as { until: string; network: string }[]
  t.match(address, { kind: 'address', username: null, failures: 5 })
  t.match(others, [{ kind: 'pair', username: 'admin', failures: 5 }])
  const left = Date.parse(address?.until ?? '') - Date.now()
  t.ok(left > 200_000 && left <= 300_000, `${left} ms`)

  for (const fields of [{}, { network: '::1', username: 'admin' }]) {
    t.match(await admin.post('/api/admin/sign-ins/unlock', fields), { code: 400 })
  }
  t.match(await admin.post('/api/admin/sign-ins/unlock', { username: 'nobody' }), { code: 404 })
  t.match(await admin.post('/api/admin/sign-ins/unlock', { network: address?.network }), { code: 200, data: null })
  t.strictSame((await admin.get('/api/admin/sign-ins')).data, [])
  t.match(await signIn('admin', 'admin password'), { code: 200 })
})

void t.test('the overview has no empty chart on the first day, and what needs attention', async (t) => {
  const admin = await serve(t)
  await admin.mount('/broken', 'Broken')
  await admin.put('/file', 'content')
  await admin.content('/file')
  const failed = anEvent({ kind: 'task.ended', result: 'failed', error: 'timeout' })
  await admin.gateway.store.audit.insert([failed, anEvent({ time: 1000, result: 'failed' })])
  const { data } = await admin.get('/api/admin/overview')
  const { minutes, days, storages, tasks, errors } = data as {
    readonly minutes: readonly { start: string; bytes_in: number; bytes_out: number; changes: number }[]
    readonly days: readonly { bytes_in: number; bytes_out: number; changes: number }[]
    readonly storages: readonly { mount_path: string; status: string; usage: object | null }[]
    readonly tasks: Readonly<Record<string, number>>
    readonly errors: readonly { id: string }[]
  }
  t.equal(minutes.length, 60)
  t.equal(days.length, 31)
  const sum = (all: typeof days, field: 'bytes_in' | 'bytes_out' | 'changes') =>
    all.reduce((total, each) => total + each[field], 0)
  for (const all of [minutes, days]) {
    t.equal(sum(all, 'bytes_in'), 7)
    t.equal(sum(all, 'bytes_out'), 7)
    t.equal(sum(all, 'changes'), 1)
  }
  t.match(
    storages.map(({ mount_path: path, status }) => [path, status]),
    [
      ['/', 'work'],
      ['/broken', /out of order/],
    ],
  )
  t.equal(tasks.failed, 0)
  t.strictSame(
    errors.map(({ id }) => id).filter((id) => id === failed.id),
    [failed.id],
    'of the last week',
  )
})
