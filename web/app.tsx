/** The pages of the console, and the frame around them. */
import { QueryClientProvider } from '@tanstack/preact-query'
import { lazy, Suspense } from 'preact/compat'
import { Route, Router, Switch, useLocation } from 'wouter-preact'
import { queryClient } from './api/queries.ts'
import { FilesPage } from './files/files-page.tsx'
import { Notices } from './parts/notices.tsx'
import { basePath, isOfTree } from './parts/places.ts'
import { Failure } from './parts/failure.tsx'
import { Frame } from './frame.tsx'
import { isAdmin, isGuest, useMe, type Me } from './session/me.ts'
import { SignInPage } from './session/sign-in-page.tsx'
import { texts } from './texts.ts'

const TasksPage = lazy(() => import('./tasks/tasks-page.tsx'))
const ProfilePage = lazy(() => import('./profile/profile-page.tsx'))
const SearchPage = lazy(() => import('./search/search-page.tsx'))
const AdminPages = lazy(() => import('./admin/admin-pages.tsx'))

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <Router base={basePath}>
        <Session />
        <Notices />
      </Router>
    </QueryClientProvider>
  )
}

function Session() {
  const { data: me, error, refetch } = useMe()
  const [location, navigate] = useLocation()
  if (error) return <Failure error={error} onRetry={() => void refetch()} />
  if (me === undefined) return <p class="loading">{texts.loading}</p>
  const wantsSignIn = location === '/@login'
  if (me === null || (wantsSignIn && isGuest(me))) {
    return <SignInPage onGuest={me ? () => navigate('/') : undefined} />
  }
  if (wantsSignIn) navigate('/', { replace: true })
  return <Pages me={me} />
}

function Pages({ me }: { readonly me: Me }) {
  const [location] = useLocation()
  return (
    <Frame me={me}>
      <Suspense fallback={<p class="loading">{texts.loading}</p>}>
        <Switch>
          <Route path="/@search">
            <SearchPage me={me} />
          </Route>
          {!isGuest(me) && (
            <Route path="/@tasks">
              <TasksPage me={me} />
            </Route>
          )}
          {!isGuest(me) && (
            <Route path="/@profile">
              <ProfilePage me={me} />
            </Route>
          )}
          {isAdmin(me) && (
            <Route path="/@manage/*?">
              <AdminPages />
            </Route>
          )}
          <Route>{isOfTree(location) ? <FilesPage me={me} /> : <p class="loading">{texts.notFound}</p>}</Route>
        </Switch>
      </Suspense>
    </Frame>
  )
}
