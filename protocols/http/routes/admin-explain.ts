/** Why a user may or may not do something at a path. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import {
  causes,
  evidenceKinds,
  explainedSteps,
  noteNames,
  type Cause,
  type ExplainedStep,
} from '../../../src/base/decision-steps.js'
import { cleanPath } from '../../../src/base/path.js'
import { plainAddress } from '../../../src/net/addresses.js'
import { right } from '../api/grant-fields.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { requiredText, signInBodyLimit, text } from '../api/fields.js'
import { malformedPath, relativePath } from '../api/refusals.js'

const stepNames = Object.keys(explainedSteps) as ExplainedStep[]
const meanings = Object.entries(explainedSteps).map(([name, asks]) => `\`${name}\`: ${asks}`)

const grantNamed = z
  .object({
    path: z.string(),
    user: z.string().nullable().describe('The name of the user who has it, or null.'),
    group: z.string().nullable().describe('The name of the group that has it, or null.'),
  })
  .meta({ id: 'NamedGrant' })

const stepFields = {
  step: z.enum(stepNames).describe(`What is asked of the account. ${meanings.join('. ')}.`),
  kind: z.enum(evidenceKinds).describe('What it looked at.'),
  id: z.int().nullable().describe('Of the grant or folder rule.'),
  subject: z.string().nullable().describe('Whose grant it is.').meta({ example: 'group:2' }),
  path: z.string().describe('Of the grant, the folder rule or the base folder; else the one that was asked.'),
  cause: z.enum(Object.keys(causes) as [Cause, ...Cause[]]).describe('What it found. The next fields belong to it.'),
  right: right.describe('What it is about, which may be another right than the one that was asked.'),
  grants: z.array(grantNamed).describe('Those that decide, 20 at most.'),
  permissions: z.int().describe('Those that are needed, as the sum of their bits.'),
  groups: z.array(z.string()).describe('The names of the groups by which the user has the permissions, 20 at most.'),
  text: z.string().describe('The same in words, for people.'),
}

const noteData = z
  .object({
    name: z.enum(noteNames),
    rights: z.array(right),
    grants: z.array(grantNamed),
    paths: z
      .array(z.string())
      .describe(
        'Of `folder_refused`: where it is refused. Of `outside_base`: the base folder. Of `spellings`: those of the ' +
          'grants. Of `elsewhere`: the mount point of the storage, and the path there.',
      ),
    networks: z.array(z.string()).describe('From which the user may come.'),
    text: z.string().describe('The same in words, for people.'),
  })
  .meta({ id: 'ExplainedNote' })

const explanationData = z
  .object({
    allowed: z.boolean(),
    error: z
      .string()
      .nullable()
      .describe(
        'The error that the user gets, such as `not_found`, or `account_disabled` if the account cannot be used.',
      ),
    decided_by: z
      .object(stepFields)
      .meta({ id: 'DecidingStep' })
      .describe('The first step that refuses, or what allows it.'),
    steps: z
      .array(z.object({ ...stepFields, refused: z.boolean() }).meta({ id: 'ExplainedStep' }))
      .describe('All, in their order: also those after the one that decides.'),
    admin: z.boolean().describe('Whether the user is an admin, to whom no grant applies.'),
    notes: z.array(z.string()).describe('What else to know, in words for people.'),
    facts: z.array(noteData).describe('The notes, by their names and with their values.'),
  })
  .meta({ id: 'Explanation' })

const unknownUser: Refusal = {
  code: 404,
  text: 'user not found',
  error: 'record_missing',
  when: 'there is no user of this name',
}
const wrongProtocol = (all: string): Refusal => ({
  code: 400,
  text: `protocol: must be one of ${all}`,
  error: 'invalid',
})
const wrongAddress: Refusal = { code: 400, text: 'address: must be an IP address', error: 'invalid' }

export const adminExplainEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/admin/explain',
    tag: 'Groups',
    summary: 'Explain why a user may or may not do something at a path',
    description:
      'No backend is asked: the path is that of a file by this name, no symlink is followed, and no folder password is sent.',
    access: 'admin',
    bodyLimit: signInBodyLimit,
    fields: z.object({
      username: requiredText.meta({ example: 'ann' }),
      path: requiredText.meta({ example: '/projects' }).describe('In the whole tree; it need not exist.'),
      right,
      protocol: z.string().meta({ example: 'webdav' }).describe('`http`, `webdav` or `sftp`.'),
      address: text.meta({ example: '10.0.0.1' }).describe('Of the client. Empty: any.'),
    }),
    data: explanationData,
    refusals: [unknownUser, wrongProtocol('…'), wrongAddress, ...malformedPath, relativePath],
    async answer({ api: { gateway }, fields: { username, path, right: asked, protocol: name, address } }) {
      const protocol = gateway.protocols.find((each) => each.name === name)
      if (protocol === undefined) throw refused(wrongProtocol(gateway.protocols.map((each) => each.name).join(', ')))
      const from = address === '' ? undefined : plainAddress(address)
      if (from === undefined && address !== '') throw refused(wrongAddress)
      const question = { username, path: cleanPath(path), right: asked, protocol, address: from }
      const explained = await withResponses({ not_found: unknownUser }, () => gateway.explain(question))
      const { decidedBy, steps, notes, facts, ...answer } = explained
      return { ...answer, decided_by: decidedBy, steps: [...steps], notes: [...notes], facts: [...facts] }
    },
  }),
]
