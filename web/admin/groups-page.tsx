/** The groups: who is in them, and what they give. */
import { UsersRound } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { NamedButton } from '../components/named-button.tsx'
import { reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { membershipChanged, type Group } from './accounts.ts'
import { presetOf } from './grants.ts'
import { GroupForm } from './group-form.tsx'

const texts = textsOf('common', 'files', 'accounts')

/** Members and grants of a group that its row names. */
const mostNamed = 5

export function GroupsPage() {
  const { data, error } = useRows(keys.groups, () => get('/api/admin/group/list'))
  const { data: users } = useRows(keys.users, () => get('/api/admin/user/list'))
  const [edited, setEdited] = useState<Group | 'new'>()
  const [deleted, setDeleted] = useState<Group>()
  const { groups } = texts
  const nameOf = (id: number) => users?.content.find((user) => user.id === id)?.username ?? String(id)
  return (
    <Page title={texts.pages.groups}>
      <p class="muted">{groups.about}</p>
      <button type="button" class="primary" onClick={() => setEdited('new')}>
        {groups.add}
      </button>
      {error && <Failure error={error} />}
      {data?.total === 0 && <Empty Icon={UsersRound} text={groups.none} />}
      {data && data.total > 0 && (
        <Table
          caption={texts.pages.groups}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [groups.name]: ({ name }) => name,
            [groups.description]: ({ description }) => description,
            [groups.members]: ({ members }) => firstOf(members, nameOf, texts.andMorePeople),
            [groups.gives]: givenBy,
          }}
          actions={(group) => (
            <>
              <NamedButton text={groups.edit} of={group.name} onClick={() => setEdited(group)} />
              <NamedButton deletes text={texts.files.remove} of={group.name} onClick={() => setDeleted(group)} />
            </>
          )}
        />
      )}
      {edited !== undefined && (
        <GroupForm group={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <DeleteDialog
          title={groups.deleteTitle}
          warning={groups.deleteWarning(deleted.name)}
          onClose={() => setDeleted(undefined)}
          onDelete={async () => {
            await reporting(post('/api/admin/group/delete', undefined, { query: { id: deleted.id } }))
            await membershipChanged()
          }}
        />
      )}
    </Page>
  )
}

function givenBy({ admin, grants }: Group): string {
  if (admin) return texts.groups.administration
  return firstOf(
    grants,
    (grant) => texts.labelled(grant.path, texts.grants.presets[presetOf(grant) ?? 'custom']),
    texts.andMore,
  )
}

/** The texts of the first few items, and how many more there are. */
function firstOf<Item>(items: readonly Item[], textOf: (item: Item) => string, andMore: typeof texts.andMore): string {
  const shown = items.slice(0, mostNamed)
  return andMore(shown.map(textOf), items.length - shown.length)
}
