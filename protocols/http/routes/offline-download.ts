/** Offline downloads: what users want to have fetched, and the programs that an admin lets fetch it. */
import { z } from 'zod'
import type { Ask } from '../../../src/change.js'
import { deletePolicies, type DeletePolicy } from '../../../src/downloads/download.js'
import type { DownloadAsk } from '../../../src/downloads/offline-downloads.js'
import { isGatewayError } from '../../../src/errors.js'
import { newPath } from '../../../src/path.js'
import type { Principal } from '../../../src/principal.js'
import type { Task } from '../../../src/tasks/task.js'
import { signalOf, type Door } from '../context.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { text, texts } from '../fields.js'
import { treeHeaders } from '../folder-password.js'
import { changeRefusals, pathRefusals, taskRefusals } from '../refusals.js'
import { taskData, taskObject } from '../task-object.js'
import { askOf } from './change.js'

const unreachable: Refusal = {
  code: 500,
  text: '…',
  when: 'the program does not answer, or refuses us; nothing is kept',
}

const noUploads: Refusal = { code: 500, text: 'upload not supported', when: 'the storage takes no files' }

export const offlineDownloadEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/add_offline_download',
    tag: 'Files',
    summary: 'Have addresses fetched into a folder',
    description:
      'A task for each. Nothing that is there already is replaced. Where an address, or a redirect, leads into a network that is not allowed, ' +
      'its task fails.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      urls: texts.meta({ example: ['https://example.org/file.iso'] }).describe('Empty ones are passed over.'),
      path: text.meta({ example: '/folder' }).describe('The folder; it is made where it is missing.'),
      tool: text.meta({ example: 'SimpleHttp' }).describe('One of `/api/public/offline_download_tools`.'),
      // Whatever else a client says must not cost a file.
      delete_policy: text
        .transform((policy): DeletePolicy => deletePolicies.find((known) => known === policy) ?? 'delete_never')
        .describe(`When what a program fetched goes from its folder: ${deletePolicies.join(', ')}.`),
    }),
    data: z.object({ tasks: z.array(taskData) }),
    refusals: [
      ...pathRefusals,
      ...changeRefusals,
      ...taskRefusals,
      { code: 500, text: 'tool … not found' },
      { code: 500, text: 'failed init offline download tool …: …', when: 'the program does not answer' },
      { code: 500, text: '…', when: 'the tool does not fetch such addresses' },
      noUploads,
    ],
    async answer({ context, door, fields, headers, principal }) {
      const folder = newPath(fields.path)
      const { tool, delete_policy: policy } = fields
      const addresses = fields.urls.map((url) => url.trim()).filter((url) => url !== '')
      const tasks = await add(door, principal, { addresses, folder, tool, policy }, askOf(context, headers.password))
      return { tasks: tasks.map(taskObject) }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/set_aria2',
    tag: 'Settings',
    summary: 'Let aria2 fetch offline downloads',
    description: 'It is asked before anything is kept.',
    access: 'admin',
    fields: z.object({
      uri: text.meta({ example: 'http://localhost:6800/jsonrpc' }),
      secret: text.meta({ example: '' }).describe('The `rpc-secret` of its configuration.'),
    }),
    data: z.string().describe('What it says it is: `aria2 version: …`.'),
    refusals: [unreachable],
    async answer({ context, door, fields: { uri, secret } }) {
      return `aria2 version: ${await door.gateway.downloads.setAria2(uri, secret, signalOf(context.res))}`
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/set_qbit',
    tag: 'Settings',
    summary: 'Let qBittorrent fetch offline downloads',
    description: 'It is asked before anything is kept.',
    access: 'admin',
    fields: z.object({
      url: text.meta({ example: 'http://admin:adminadmin@localhost:8080/' }).describe('With user name and password.'),
      seedtime: text
        .meta({ example: '0' })
        .describe('Minutes that a torrent is given to others once it is whole; negative: it is never removed.'),
    }),
    data: z.literal('ok'),
    refusals: [unreachable, { code: 400, text: 'setting […] must be a number' }],
    async answer({ context, door, fields: { url, seedtime } }) {
      await door.gateway.downloads.setQBittorrent(url, seedtime, signalOf(context.res))
      return 'ok' as const
    },
  }),
]

async function add(door: Door, principal: Principal, asked: DownloadAsk, ask: Ask): Promise<readonly Task[]> {
  try {
    return await door.gateway.downloads.add(principal, asked, ask)
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) throw new WireError(noUploads.code, noUploads.text)
    throw error
  }
}
