/** Background work of the user, of all users for an admin. */
import { Link } from 'wouter-preact'
import { Page } from '../components/page.tsx'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { TaskLists } from './task-lists.tsx'
import { kinds } from './task.ts'

const texts = textsOf('common', 'tasks')

export default function TasksPage({ me }: { readonly me: Me }) {
  return (
    <Page title={texts.nav.tasks}>
      <TaskLists me={me} kinds={kinds}>
        <p class="muted">{texts.tasks.hint}</p>
        <Link href="/" class="button primary">
          {texts.toFiles}
        </Link>
      </TaskLists>
    </Page>
  )
}
