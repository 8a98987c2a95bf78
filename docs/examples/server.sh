passdown init
passdown task new T-1 --title "Login" --agent planner
passdown serve --port 8799 & server=$!
until curl -sf http://127.0.0.1:8799/ready; do sleep 0.2; done
token=$(cat .passdown/serve.token)
ask() { curl -s -H "Authorization: Bearer $token" -H "Content-Type: application/json" "$@"; }
ask http://127.0.0.1:8799/api/decisions -d '{"task": "T-1", "summary": "JWT in a cookie", "rationale": "scripts cannot read it"}'
ask "http://127.0.0.1:8799/api/tasks/T-1/brief?budget=300"
ask http://127.0.0.1:8799/api/tasks/T-1 -X PATCH -H 'If-Match: "1"' -d '{"title": "Sign in"}'
PASSDOWN_TOKEN=$token passdown log T-1 --store http://127.0.0.1:8799
kill $server
