/** Sign-ins by QR codes for a storage that is not saved yet. */
import t, { type Test } from 'tap'
import type { AnyDriverType, QrSignIn } from '../../src/contract/driver-type.js'
import { StorageSignIns } from '../../src/mounts/storage-sign-ins.js'
import { newTree } from '../tree/tree-fixture.js'

async function signInsOf(t: Test, qrSignIn?: Partial<QrSignIn>) {
  const tree = await newTree(t, { '/disk': {} })
  const signIn: QrSignIn = {
    field: 'cookie',
    begin: async (options) => ({ text: JSON.stringify(options), ticket: 'ticket' }),
    ask: async (ticket) => ({ state: 'confirmed', values: { cookie: ticket } }),
    ...qrSignIn,
  }
  const scanned: AnyDriverType = {
    name: 'Scanned',
    fields: { cookie: { type: 'string', required: true } },
    open: () => Promise.reject(new Error('is not opened')),
    ...(qrSignIn && { qrSignIn: signIn }),
  }
  return new StorageSignIns({ ...tree.supervisor.dependencies, driverTypes: [scanned] })
}

void t.test('the driver is asked with the options of the form, which may lack what is required', async (t) => {
  const signIns = await signInsOf(t, {})
  t.match(await signIns.begin('Scanned', '{"kind":"tv"}'), { text: '{"kind":"tv"}', ticket: 'ticket' })
  t.match(await signIns.begin('Scanned', ''), { text: '{}' })
  t.strictSame(await signIns.ask('Scanned', 'x'), { state: 'confirmed', values: { cookie: 'x' } })
})

void t.test('what cannot be asked is refused', async (t) => {
  const signIns = await signInsOf(t, {})
  await t.rejects(signIns.begin('Scanned', '[]'), { code: 'invalid' })
  await t.rejects(signIns.begin('Other', ''), { code: 'invalid', detail: 'driver_unknown' })
  await t.rejects(signIns.ask('Other', ''), { code: 'invalid', detail: 'driver_unknown' })
  await t.rejects((await signInsOf(t)).begin('Scanned', ''), { code: 'unsupported' })
})

void t.test('eight ask at once, and one who leaves ends the question', async (t) => {
  const signals: AbortSignal[] = []
  const signIns = await signInsOf(t, {
    ask: (_ticket, { signal }) =>
      new Promise((_resolve, reject) => {
        signals.push(signal)
        signal.addEventListener('abort', () => reject(signal.reason as Error))
      }),
  })
  const left = new AbortController()
  const asked = Array.from({ length: 8 }, () => signIns.ask('Scanned', 'x', { signal: left.signal }))
  await t.rejects(signIns.ask('Scanned', 'x'), { code: 'busy' })
  left.abort()
  for (const each of asked) await t.rejects(each, { code: 'aborted' })
  t.ok(signals.length === 8 && signals.every(({ aborted }) => aborted))
})
