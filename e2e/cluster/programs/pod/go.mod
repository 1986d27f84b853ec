module sallyport.dev/e2e/cluster/pod

go 1.24.0
