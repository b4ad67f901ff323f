/** Uploads: put (the raw body) and form (a part of one). */
import type { Change } from '../../../src/change.js'
import type { Source } from '../../../src/driver.js'
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import { nameOf, parentOf, under, type Path } from '../../../src/path.js'
import type { Spooled } from '../../../src/spool.js'
import type { TaskWork } from '../../../src/tasks.js'
import type { VirtualFs } from '../../../src/virtual-fs.js'
import { bodySource } from '../../lib/body.js'
import { treeOf } from '../authenticate.js'
import { signalOf, type Context, type Door, type Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { filePart } from '../form-upload.js'
import { taskObject } from '../task-object.js'
import { readUploadHeaders, type UploadHeaders } from '../upload-headers.js'
import { verifiedSource } from '../verified-source.js'

const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

export function uploadRoutes(routes: Routes, door: Door): void {
  routes.put('/api/fs/put', async (ctx) => {
    const headers = readUploadHeaders(ctx.req)
    await store(ctx, headers, bodySource(ctx.req, headers))
  })

  routes.put('/api/fs/form', async (ctx) => {
    const headers = readUploadHeaders(ctx.req)
    const part = await filePart(ctx.req, signalOf(ctx.res))
    try {
      await store(ctx, headers, { ...headers, rereadable: false, read: async () => part })
    } finally {
      part.destroy()
    }
  })

  /** Answers once the bytes are stored; as a task, once they are received. */
  async function store(ctx: Context, headers: UploadHeaders, source: Source): Promise<void> {
    const { path, createOnly, modified, password } = headers
    assertWanted(path)
    const fs = await treeOf(door, ctx.req)
    const signal = signalOf(ctx.res)
    const change = { createOnly, modified, password, parents: true }
    try {
      if (headers.asTask) {
        await fs.assertWritable(path, { ...change, signal })
        const received = await door.gateway.spool.receive(verifiedSource(source), signal)
        const task = await door.gateway.tasks.add(fs.principal, uploadWork(fs, path, received, change))
        ctx.body = success({ task: taskObject(task) })
      } else {
        await fs.write(path, verifiedSource(source), { ...change, signal })
        ctx.body = success()
      }
    } catch (error) {
      if (isGatewayError(error, 'exists')) throw new WireError(403, 'file exists')
      throw error
    }
  }

  function assertWanted(path: Path): void {
    const name = nameOf(path)
    if (!door.gateway.settings.bool('ignore_system_files')) return
    if (systemFiles.has(name) || name.startsWith('._')) {
      throw new GatewayError('denied', { reason: 'system file upload ignored' })
    }
  }
}

function uploadWork(
  fs: VirtualFs,
  path: Path,
  source: Spooled,
  change: Change & { readonly parents: boolean },
): TaskWork {
  return {
    kind: 'upload',
    // Clients take a link to the folder out of this form.
    name: `upload ${nameOf(path)} to [/](${under(fs.principal.base, parentOf(path))})`,
    totalBytes: source.size,
    status: 'uploading',
    async run(progress, signal) {
      await fs.write(path, source, { ...change, signal })
      progress(source.size)
    },
    dispose: () => source.dispose(),
  }
}
