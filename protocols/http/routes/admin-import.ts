/**
 * The import of another program's data into a new installation. An extension of this gateway, described in docs/api.md.
 */
import { z } from 'zod'
import { signalOf } from '../api/http-api.js'
import { endpoint } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { importedKinds } from '../../../src/base/imported-kinds.js'
import { flag, optionalField, stringList } from '../api/fields.js'
import { eachFilePart } from '../files/form-upload.js'

const reportData = z
  .object({
    dry_run: z.boolean(),
    items: z.array(
      z
        .object({
          kind: z.enum(importedKinds).meta({ example: 'user' }),
          name: z.string(),
          outcome: z.enum(['taken', 'changed', 'left out']).describe('`changed`: taken, but not as it was.'),
          reason: z.string().describe('Empty for what is taken.'),
        })
        .meta({ id: 'ImportedItem' }),
    ),
    notes: z.array(z.string()).describe('Sentences for the administrator.'),
  })
  .meta({ id: 'ImportReport' })

const sources = stringList.meta({ example: ['/srv/docs'] })

export const adminImportEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/admin/import',
    tag: 'Process',
    summary: 'Import the accounts, storages, rules and settings of another program',
    description:
      'As `tidegate import` does, into an installation that has only what a first run makes, which is replaced: afterwards ' +
      'no session of before is valid, and the accounts are those of the other program.',
    access: 'admin',
    event: 'admin.other',
    recentSignIn: true,
    query: z.object({
      program: z.enum(['alist', 'openlist', 'filebrowser', 'quantum'], {
        error: 'must be alist, openlist, filebrowser or quantum',
      }),
      dry_run: flag.describe('Only report: store nothing.'),
      root: optionalField(z.string().max(4096)).describe(
        'File Browser: the folder with the files, if it is not that of the configuration.',
      ),
      allow_by_default: sources.describe(
        'File Browser Quantum: the folders of sources whose configuration does not have `denyByDefault`. Nobody sees in ' +
          'others what no rule allows.',
      ),
      deny_by_default: sources.describe('The same for sources that have it. They are not reported as uncertain then.'),
    }),
    content: {
      type: 'multipart/form-data',
      description:
        'A form (RFC 7578) with the files, each in a part `file` with its name. AList and OpenList: `config.json`, the ' +
        'database that it names, its `-wal` file if there is one, and `ssh_host_rsa_key` if it is to be kept. File Browser: ' +
        '`users.json` and `config.json`, and `shares.json` if shares are to be taken. File Browser Quantum: its database, and its `-wal` file if there is one.',
      part: 'file',
    },
    data: reportData,
    refusals: [
      {
        code: 400,
        text: '…',
        error: 'invalid',
        when: 'a file is missing, cannot be read or is not used; the message says which',
      },
      { code: 409, text: '…', error: 'exists', when: 'the installation has users, storages or rules of its own' },
      { code: 413, text: '…', error: 'too_large', when: 'the files have more than 1 GiB' },
      { code: 507, text: '…', error: 'no_space', when: 'the disk is full' },
      { code: 503, text: '…', error: 'busy', when: 'another import is running' },
    ],
    answer({ api: { gateway }, context, query: { program, dry_run: dryRun, root, ...stated } }) {
      const signal = signalOf(context.res)
      const defaults = { allowed: stated.allow_by_default, denied: stated.deny_by_default }
      const options = { program, dryRun, root: root === '' ? undefined : root, defaults, signal }
      return withResponses({ exists: { code: 409 } }, () =>
        gateway.imports.run(options, (save) => eachFilePart(context.req, signal, save)),
      )
    },
  }),
]
