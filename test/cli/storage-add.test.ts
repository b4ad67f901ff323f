/** `tidegate storage add` of a storage that does not start, with and without a running daemon. */
import { execFile } from 'node:child_process'
import t from 'tap'
import { startGateway } from '../gateway.js'
import { storeVariables } from '../store-location.js'
import { main } from './outcome.js'

async function add(data: string, ...words: readonly string[]) {
  const env = { ...process.env, ...(await storeVariables(data)) }
  return new Promise<{ status: unknown; out: string; err: string }>((resolve) => {
    execFile(process.execPath, [main, 'storage', 'add', ...words, '--data', data], { env }, (error, out, err) =>
      resolve({ status: error ? error.code : 0, out, err }),
    )
  })
}

const gone = ['Local', '-o', 'root_folder_path=/no/such/folder']

for (const runs of [true, false]) {
  const where = runs ? 'beside a running daemon' : 'without a daemon'
  void t.test(`a storage that does not start is added and the error is reported, ${where}`, async (t) => {
    const running = await startGateway(t)
    const { dataFolder } = running
    if (!runs) await running.stop()
    t.match(await add(dataFolder, '/gone', ...gone), {
      status: 1,
      out: '',
      err: /^tidegate: \/gone is added, with the id \d+, but does not work: root folder \/no\/such\/folder not exists\n$/,
    })
    const { status, out, err } = await add(dataFolder, '/json', ...gone, '--json')
    t.equal(status, 1)
    t.match(err, /does not work/)
    t.match(JSON.parse(out), { id: Number, mount_path: '/json', status: /^root folder .* not exists$/ })
    const works = runs ? 'and works' : 'and starts with the daemon'
    t.match(await add(dataFolder, '/fine', 'Memory'), { status: 0, out: `/fine is added ${works}\n` })
  })
}

void t.test(
  'a storage that only a daemon can open is added, and the output says that it starts with the daemon',
  async (t) => {
    const running = await startGateway(t)
    await running.stop()
    const added = await add(running.dataFolder, '/all', 'Alias', '-o', 'paths=/')
    t.match(added, { status: 0, out: '/all is added and starts with the daemon\n', err: '' })
  },
)
